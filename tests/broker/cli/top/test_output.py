"""`sluice top` in a terminal: the live list, its keys, and how it ends."""

import csv
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.broker.admin import wait_for_api
from tests.support.brokers import start_sluice
from tests.support.process import clean_environment
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
IN_ITS_TERMINAL = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "  # Ctrl-C is a signal only there
    # Who starts the tests in the background has them ignore it, and what they start too.
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from broker.cli.main import main; main()"
)


class Terminal:
    """A terminal in which the command runs."""

    def __init__(self, *arguments: object) -> None:
        self._ours, theirs = pty.openpty()
        command = [sys.executable, "-c", IN_ITS_TERMINAL, "top", *map(str, arguments)]
        env = clean_environment(COLUMNS="120", LINES="24", TERM="xterm")
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=env, start_new_session=True
        )
        os.close(theirs)
        self._seen = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def seen(self) -> str:
        """All that has been shown."""
        return self._seen.decode(errors="replace")

    def wait_for(self, condition: Callable[[str], bool], what: str) -> None:
        """Wait until what has been shown is enough."""
        wait_until(lambda: condition(self.seen), f"{what}: {self.seen[-2000:]!r}", 20)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def end(self) -> tuple[int, str]:
        """Wait for the command's end; returns its status and what it has written to standard error."""
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            err = stream.read().decode()
        status = self.process.wait(20)
        self._reader.join()
        assert termios.tcgetattr(self._ours)[3] & termios.ECHO, "what is typed is not shown any more"
        os.close(self._ours)
        return status, err

    def _read(self) -> None:
        try:
            while data := os.read(self._ours, 65536):
                self._seen += data
        except OSError:
            pass  # the command has ended


@pytest.fixture
def terminal(path: Path) -> Iterator[Terminal]:
    """The live list, on the screen already."""
    terminal = Terminal("--socket", path, "--interval", "1s")
    try:
        terminal.wait_for(lambda seen: "slow" in seen, "the list")
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()


@pytest.mark.parametrize("way", ["q", "\x03", signal.SIGINT, signal.SIGTERM])
def test_ends_quietly(terminal: Terminal, way: str | signal.Signals) -> None:
    """q, Ctrl-C and SIGTERM end the live list without output on standard error, and the terminal is as before."""
    assert ENTER in terminal.seen
    if isinstance(way, str):
        terminal.type(way)
    else:
        terminal.process.send_signal(way)
    status, err = terminal.end()
    assert (status, err) == (143 if way is signal.SIGTERM else 0, "")
    assert terminal.seen.rstrip().endswith(LEAVE)


def test_updates_and_sorts(terminal: Terminal) -> None:
    """The live list is updated with rates, and s sorts it by the next key."""
    terminal.wait_for(lambda seen: seen.count("slow") >= 2, "an update")
    terminal.type("s")
    terminal.wait_for(lambda seen: "\x1b[1;7m  bytes" in seen, "sorted by bytes")
    terminal.type("q")
    assert terminal.end() == (0, "")


def times(file: Path) -> list[str]:
    """The times of a file's rows."""
    with file.open(newline="") as opened:
        return [row["time"] for row in csv.DictReader(opened)]


def test_live_csv(path: Path, tmp_path: Path) -> None:
    """Each update of the live list is appended to the file of `--out` too."""
    file = tmp_path / "live.csv"
    terminal = Terminal("--socket", path, "--interval", "1s", "--out", file)
    wait_until(lambda: file.exists() and len(set(times(file))) >= 2, "two updates", 20)
    terminal.type("q")
    assert terminal.end() == (0, "")


def test_once_in_a_terminal(path: Path) -> None:
    """`--once` prints the list and ends, in a terminal too."""
    terminal = Terminal("--socket", path, "--once")
    assert terminal.end() == (0, "")
    assert "slow" in terminal.seen
    assert ENTER not in terminal.seen


def test_the_broker_goes(tmp_path: Path) -> None:
    """The live list ends when the broker ends, and says why."""
    with start_sluice(tmp_path, sections={"admin": {"socket": "a.sock"}}) as running:
        wait_for_api(running, tmp_path / "a.sock")
        terminal = Terminal("--socket", tmp_path / "a.sock", "--interval", "1s")
        terminal.wait_for(lambda seen: "sessions: 0" in seen, "the list")
    status, err = terminal.end()
    assert (status, err) == (1, f"sluice: {tmp_path}/a.sock: the broker has closed the connection\n")
    assert terminal.seen.rstrip().endswith(LEAVE)


def test_no_screen_without_an_answer(tmp_path: Path) -> None:
    """Without a broker the command does not change the screen."""
    terminal = Terminal("--socket", tmp_path / "a.sock")
    status, err = terminal.end()
    assert (status, "there is no such socket" in err) == (1, True)
    assert ENTER not in terminal.seen
