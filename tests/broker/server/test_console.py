"""The log as text: mistakes of several lines that people can read, and values that are escaped once."""

import pytest
import structlog

from broker.server.console import Console

FORGED = "2026-11-21T00:00:00Z [info     ] listening"


def shown(event: str, **values: object) -> list[str]:
    """The lines of an event."""
    entry: structlog.types.EventDict = {"event": event, "level": "error", "timestamp": "2026-11-21T07:00:00Z", **values}
    return Console(False)(None, "error", entry).split("\n")


@pytest.mark.parametrize("event", ["reload_failed", "file_not_read"])
def test_mistakes_of_operators(event: str) -> None:
    """Each mistake has a line of its own, which no event begins like."""
    detail = f"the configuration has 2 mistakes:\n  a.yaml:3: log.level: found 'x'\n{FORGED}\x1b[2J\r{FORGED}"
    first, *more = shown(event, detail=detail, key="authorization.rules_file")
    assert "detail='the configuration has 2 mistakes:'" in first
    assert first.endswith("key=authorization.rules_file")
    assert more == ["      a.yaml:3: log.level: found 'x'", f"    {FORGED}\\x1b[2J\\r{FORGED}"]


def test_what_clients_send() -> None:
    """Control characters are escaped, once, and nothing else has lines of its own."""
    (line,) = shown("client_refused", detail="it's\nnew", client_id=f"x\n{FORGED}", plain="two words")
    assert "client_id='x\\n2026" in line
    assert 'detail="it\'s\\nnew"' in line
    assert "plain='two words'" in line


def test_events_that_mean_one_line() -> None:
    """A detail of one line is as it would be elsewhere."""
    assert shown("reload_failed", detail="nothing")[0].endswith("detail=nothing")
