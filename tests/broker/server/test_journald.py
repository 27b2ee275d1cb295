"""The log in systemd's journal: a field for each value."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
import structlog

from broker.server.journald import Journald, encoded, reads
from tests.support.brokers import sluice_config
from tests.support.process import clean_environment

pytestmark = pytest.mark.once

START: Final = """
import os, broker.server.journald as journald
status = os.fstat(2)
os.environ["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
journald.SOCKET = "journal"
import broker.__main__
"""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a journal."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(30)
        sock.bind(str(tmp_path / "journal"))
        yield sock


def fields(datagram: bytes) -> dict[str, str]:
    """What the journal reads from a datagram."""
    found: dict[str, str] = {}
    while datagram:
        line, _, datagram = datagram.partition(b"\n")
        key, equals, value = line.partition(b"=")
        if not equals:
            size = int.from_bytes(datagram[:8], "little")
            value, datagram = datagram[8 : 8 + size], datagram[8 + size + 1 :]
        assert key.decode() not in found
        found[key.decode()] = value.decode()
    return found


def test_broker(tmp_path: Path, journal: socket.socket) -> None:
    """A broker whose standard error the journal reads sends each line with its fields, and nothing as text."""
    file = tmp_path / "sluice.yaml"
    file.write_text(sluice_config([], {"listeners": [{"name": "tcp", "bind": "127.0.0.1:0"}], "log": {}}))
    command = [sys.executable, "-c", START, "run", "--config", str(file)]
    environment = clean_environment(XDG_RUNTIME_DIR=str(tmp_path), PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    text = tmp_path / "stderr"
    with text.open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr, cwd=tmp_path, env=environment)
    try:
        told: dict[str, str] = {}
        while told.get("SLUICE_EVENT") != "listening":
            told = fields(journal.recv(65_536))
        assert (told["SLUICE_LISTENER"], told["SLUICE_TLS"], told["PRIORITY"]) == ("tcp", "false", "6")
        assert told["MESSAGE"] == f"listening listener=tcp host=127.0.0.1 port={told['SLUICE_PORT']} tls=false"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert text.read_text() == ""


def test_nothing_can_be_forged() -> None:
    """A value with line ends is one field, also if it looks like others; a traceback is behind the message."""
    hostile = "a\nPRIORITY=0\nSLUICE_EVENT=stopped"
    told = fields(encoded({"event": "crash", "client_id": hostile, "level": "error", "exception": "Trace\nback"}))
    assert (told["SLUICE_EVENT"], told["PRIORITY"], told["SLUICE_CLIENT_ID"]) == ("crash", "3", hostile)
    assert told["MESSAGE"].endswith("\nTrace\nback")
    assert fields(encoded({"event": "x", "detail": "\udcff"}))["SLUICE_DETAIL"] == "\\udcff"


def test_which_file(tmp_path: Path) -> None:
    """Only the file that systemd has named is read by the journal: standard error may have been redirected since."""
    with (tmp_path / "log").open("wb") as file:
        status = os.fstat(file.fileno())
        stream = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        assert reads(file.fileno(), stream)
        assert not reads(0, stream)
    assert not reads(0, {})


def test_journal_that_is_away(tmp_path: Path, journal: socket.socket) -> None:
    """While the journal does not take a line, it goes to standard error as text."""
    with closing(Journald(str(tmp_path / "journal"))) as sending:
        with pytest.raises(structlog.DropEvent):
            sending(None, "info", {"event": "stopped"})
        assert fields(journal.recv(65_536))["MESSAGE"] == "stopped"
        journal.close()
        assert sending(None, "info", {"event": "stopped"}) == {"event": "stopped"}
