"""What bounds a trace: how many connections it looks at, and how much of the time it takes."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from broker.admin.trace import trace as traces
from broker.admin.trace.trace import Trace, Wanted
from tests.support.broker.local import LocalBroker, Transport

pytestmark = pytest.mark.once


def traced(monkeypatch: pytest.MonkeyPatch, took: float, lines: int) -> list[Any]:
    """The first lines of a trace of a broker with three clients, whose taps have taken so many seconds."""
    monkeypatch.setattr(Transport, "set_protocol", lambda _, __: None, raising=False)
    with LocalBroker() as local:
        for number in range(3):
            local.client().connect(f"c{number}")
        trace = Trace(local.broker, Wanted(topic_filter="t/#"), 10, payload=False)
        trace.took = took

        async def read() -> list[Any]:
            async with aclosing(trace.lines(60)) as found:
                return [json.loads(await anext(found)) for _ in range(lines)]

        return local.loop.run_until_complete(read())


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many connections it looks at some, and says so."""
    monkeypatch.setattr(traces, "MOST_TAPPED", 2)
    (began,) = traced(monkeypatch, 0.0, 1)
    assert began["text"] == "2 connections, the most, of 3: the others are not shown"
    monkeypatch.undo()
    (began,) = traced(monkeypatch, 0.0, 1)
    assert began["text"] == "3 connections"


def test_its_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends when it takes more than its share, and says what takes less."""
    monkeypatch.setattr(traces, "PERIOD", 0.0)
    began, ended = traced(monkeypatch, 1e9, 2)
    assert (began["event"], ended["event"]) == ("began", "ended")
    assert "of the broker's time: name a client, or fewer topics" in ended["text"]


def test_it_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """When its time is over the answer ends, too; it does not wait for what shows that a quiet trace still runs."""
    monkeypatch.setattr(traces, "QUIET", 3600.0)
    with LocalBroker() as local:
        trace = Trace(local.broker, Wanted(client_id="nobody"), 10, payload=False)

        async def read() -> list[Any]:
            return [json.loads(line) async for line in trace.lines(0.01)]

        found = local.loop.run_until_complete(asyncio.wait_for(read(), 60))
        assert [each["text"] for each in found] == ["0 connections", "the time is over"]


def test_ended_sessions_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that have ended are watched no longer, so that those that come later are."""
    monkeypatch.setattr(traces, "MOST_WATCHED", 1)
    with LocalBroker() as local:
        clients = {name: local.client() for name in ("first", "second")}
        for name, client in clients.items():
            client.connect(name)
        first, second = (local.broker.clients.by_id[name] for name in clients)
        trace = Trace(local.broker, Wanted(client_id="nobody"), 10, payload=False)
        assert (trace.watch(first) is not None, trace.watch(second)) == (True, None)
        clients["first"].drop()

        async def read() -> None:
            async for _ in trace.lines(0.01):
                pass

        local.loop.run_until_complete(read())
        assert trace.watch(second) is not None
