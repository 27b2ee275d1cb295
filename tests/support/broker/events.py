"""The events that a broker has logged as JSON lines."""

import json
from typing import Any

from tests.support.process import BrokerProcess


def events(broker: BrokerProcess, name: str = "") -> list[dict[str, Any]]:
    """The events so far, all or those of one name."""
    return [event for event in map(_event, broker.stderr.splitlines()) if event and name in ("", event.get("event"))]


def wait_for_event(broker: BrokerProcess, name: str, count: int = 1, seconds: float = 30.0) -> list[dict[str, Any]]:
    """Wait until an event has been logged `count` times; return all of them."""

    def enough(lines: list[str]) -> bool:
        return sum(1 for line in lines if _event(line).get("event") == name) >= count

    broker.wait_for_output(enough, f"{count} times {name}", seconds)
    return events(broker, name)


def _event(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
