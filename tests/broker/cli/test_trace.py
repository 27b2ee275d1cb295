"""`sluice ctl trace`: what it prints, and how it refuses."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from broker.cli.main import app
from broker.cli.trace import in_words
from tests.broker.conftest import Start
from tests.support.broker.admin import wait_for_api

pytestmark = pytest.mark.once


def trace(*arguments: object) -> tuple[int, str, str]:
    """Run `sluice ctl trace` in this process: status, standard output, standard error."""
    result = CliRunner().invoke(app, ["ctl", "trace", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_trace(start: Start, tmp_path: Path) -> None:
    """It prints a line for each thing that happens, or JSON, and ends with its time; a wrong question is refused."""
    broker = start(sections={"admin": {"socket": "a.sock"}})
    wait_for_api(broker, tmp_path / "a.sock")
    where = ("--socket", tmp_path / "a.sock")
    status, out, err = trace("--client", "a", "--for", "100ms", *where)
    assert (status, err) == (0, "")
    assert re.fullmatch(r"[0-9:.]{15}  -  began  0 connections\n[0-9:.]{15}  -  ended  the time is over\n", out)
    _, out, _ = trace("--topic", "a/#", "--for", "100ms", "--json", *where)
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["began", "ended"]
    assert trace(*where)[0] == 1
    assert "name a client_id" in trace(*where)[2]
    assert trace("--client", "a", "--for", "soon", *where)[0] == 2


def test_terminal() -> None:
    """What clients send cannot control the terminal."""
    line = {"at": "2026-11-23T10:00:00.000001+00:00", "client_id": "a\x1b[2J", "user": "ann", "address": None}
    line |= {"event": "sent", "packet": "PUBLISH", "topic": "t\n", "text": "QoS 0"}
    assert in_words(line | {"lost": 0}) == "10:00:00.000001  a\\x1b[2J (ann)  sent  PUBLISH  t\\x0a  QoS 0"
