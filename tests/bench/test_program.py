"""A bench that is ended by a signal leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.bench import program, run, stalled
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once

RUN = (run.__file__, "--loads", "pairs-q0", "--brokers", "sluice-interpreted", "--seconds", "60")


@pytest.mark.parametrize(
    ("command", "number"),
    [
        pytest.param(RUN, signal.SIGTERM, marks=pytest.mark.slow),
        (RUN, signal.SIGHUP),
        pytest.param(RUN, signal.SIGINT, marks=pytest.mark.slow),
        ((stalled.__file__, "--brokers", "sluice-interpreted"), signal.SIGTERM),
    ],
    ids=lambda value: Path(value[0]).stem if isinstance(value, tuple) else value.name,
)
@pytest.mark.usefixtures("generator")
def test_signals(tmp_path: Path, command: tuple[str, ...], number: signal.Signals) -> None:
    """Its broker and its generator have ended, and its folders are removed."""
    # Children inherit which signals are ignored, and `nohup` ignores SIGHUP: give the run the defaults.
    python = ["env", "--default-signal=HUP,INT", sys.executable]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([*python, *command], env=environment, stderr=subprocess.DEVNULL) as running:
        process = psutil.Process(running.pid)
        wait_until(lambda: len(process.children()) >= 2, "the broker and the generator run", 30)
        children = process.children(recursive=True)
        running.send_signal(number)
        assert running.wait(30) == 128 + number
    assert psutil.wait_procs(children, timeout=10)[1] == []
    assert list(tmp_path.iterdir()) == []


def test_ignored_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `nohup`, which ignores SIGHUP, it stays ignored."""
    monkeypatch.setattr(sys, "argv", ["bench"])
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit):
            program.run(lambda: None)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
