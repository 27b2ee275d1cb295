"""The secret of SCRAM's decoys: what a stranger is told about unknown names stays over a restart."""

import signal
from base64 import b64decode
from pathlib import Path
from stat import S_IMODE

import pytest
from structlog.testing import capture_logs

from broker.auth.decoy_secret import FILE, decoy_secret
from protocol.auth import Auth
from tests.broker.conftest import Start
from tests.conformance.scram import USER, Scram, data_of
from tests.support.broker.guarded import GUARDED, ask
from tests.support.process import Address
from tests.support.wire import WireClient

pytestmark = pytest.mark.once


def salt(address: Address, name: str) -> bytes:
    """The salt that a client is told who gives this name."""
    with WireClient(address, 5) as client:
        ask(client, Scram(name))
        _, told, _ = data_of(client.expect(Auth).properties).split(",")
        return b64decode(told.removeprefix("s="))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_salts_stay_over_a_restart(start: Start, tmp_path: Path, how: signal.Signals) -> None:
    """Neither a user nor an unknown name has another salt after it, so that a stranger cannot tell them apart."""
    told = []
    for _ in range(2):
        broker = start(sections={**GUARDED, "persistence": {"directory": str(tmp_path / "journal")}})
        told.append([salt(broker.address(), name) for name in (USER, "nobody", "somebody")])
        broker.ask_to_end(how)
        broker.stop()
    assert told[0] == told[1]
    assert len(set(told[0])) == 3
    assert S_IMODE((tmp_path / "journal" / FILE).stat().st_mode) == 0o600


def test_without_a_directory() -> None:
    """Without a journal each process has a secret of its own."""
    assert decoy_secret(None) != decoy_secret(None)


def test_a_file_that_was_cut_off(tmp_path: Path) -> None:
    """What a crash has left of the file is replaced."""
    (tmp_path / FILE).write_bytes(b"short")
    assert decoy_secret(tmp_path) == decoy_secret(tmp_path) != b"short"


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    """The broker goes on, and says what that means."""
    (tmp_path / FILE).mkdir()
    with capture_logs() as logged:
        assert len(decoy_secret(tmp_path)) == 32
    (event,) = logged
    assert event["event"] == "scram_secret_not_kept"
    assert str(tmp_path / FILE) in event["detail"]
