"""Every event that the broker logs is in EVENTS.md, with what to do, and nothing else is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.once

ROOT: Final = Path(__file__).parents[2]

LOGGING: Final = {"debug", "info", "warning", "error", "critical", "exception", "report", "_log"}
"""What is called to log an event, whose name is a text of its own among the arguments."""

ELSEWHERE: Final = {
    "admin_socket_in_use",
    "admin_socket_unavailable",
    "audit",
    "library",
    "log_throttled",
    "memory_high",
    "memory_low",
    "mqueue_full",
    "shared_queue_full",
    "subscribed",
    "unsubscribed",
}
"""Events whose names are not in the call that logs them."""


def logged() -> Iterator[str]:
    """The names in calls that log."""
    files = [path for package in ("broker", "session") for path in (ROOT / package).rglob("*.py")]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in LOGGING:
                texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
                yield from (text for text in texts if isinstance(text, str) and re.fullmatch("[a-z_]{4,}", text))


def test_every_event_is_described() -> None:
    """Who reads a name in the log finds it in the document, and what it names exists."""
    text = (ROOT / "broker" / "EVENTS.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row[1])]
    assert sorted(named) == sorted(set(named))
    assert set(named) == set(logged()) | ELSEWHERE
    assert all(cell.strip() for row in rows for cell in row[1:-1])
