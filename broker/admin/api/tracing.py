"""The trace, live: for operators, because it shows what clients send to each other."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from ipaddress import ip_address
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import BaseModel, Field

from broker.admin.api.audit import Audit, operator_audit
from broker.admin.api.event_stream import EventStream
from broker.admin.api.who import Finder
from broker.admin.managed import Managed
from broker.admin.trace.trace import Trace, Wanted
from protocol.errors import MQTTError
from protocol.topics import validate_topic_filter

LONGEST: Final = 3_600
"""Seconds of the longest trace."""

MOST_LINES: Final = 100_000

_Text = Annotated[str | None, Query(min_length=1, max_length=65_535)]


class TraceLine(BaseModel):
    """One thing that has happened."""

    at: str = Field(description="UTC, with microseconds.")
    client_id: str | None
    user: str | None = Field(description="Whom the client has authenticated as.")
    address: str | None
    event: str = Field(
        description="Packets: received, sent, acknowledged. Decisions: routed, refused, parked, paged, discarded, "
        "gated, queued, drained, dropped, resent, slow, congested, paused, resumed, waits. And began, closed, ended."
    )
    packet: str | None
    topic: str | None
    text: str
    lost: int = Field(description="Lines lost so far because they were read too slowly.")


class Tracing:
    """At most one trace at a time."""

    def __init__(self, managed: Managed) -> None:
        self._broker = managed.broker
        self._trace: Trace | None = None
        self._began = False
        self._stopped = False

    def take(self, wanted: Wanted, limit: int, payload: bool) -> Trace | None:
        """A new trace; None if there is one. It is the only one until its events have ended, or it is given back."""
        if self._trace is not None or self._stopped:
            return None
        self._began = False
        self._trace = Trace(self._broker, wanted, limit, payload)
        return self._trace

    def give_back(self, trace: Trace) -> None:
        """The answer has ended: end this trace, unless its lines are being read, which ends it too."""
        if self._trace is trace and not self._began:
            self._trace = None

    async def events(self, trace: Trace, seconds: float, valid: Callable[[], bool]) -> AsyncIterator[str]:
        """The lines of the trace as server-sent events, as long as the answer is `valid`."""
        self._began = True
        lines: AsyncGenerator[str, None] = trace.lines(0 if self._stopped else seconds)
        try:
            async with aclosing(lines):
                async for line in lines:
                    if not valid():
                        return
                    yield f"data: {line}\n\n" if line else ": still running\n\n"
        finally:
            self._trace = None

    def stop(self) -> None:
        """End the trace."""
        self._stopped = True
        if self._trace is not None:
            self._trace.active = False


def trace_router(tracing: Tracing, find: Finder) -> APIRouter:
    """The endpoint."""
    router = APIRouter(tags=["trace"])
    Log = Annotated[Audit, Depends(operator_audit(find))]  # noqa: N806 - a type, whose dependency is known only here
    schema: dict[int | str, dict[str, object]] = {200: {"model": TraceLine}, 403: {}, 422: {}, 503: {}}

    @router.get("/trace", response_class=EventStream, responses=schema)
    async def trace(
        audit: Log,
        client_id: _Text = None,
        topic_filter: _Text = None,
        address: Annotated[str | None, Query(max_length=64, description="An IP address.")] = None,
        seconds: Annotated[float, Query(gt=0, le=LONGEST)] = 60,
        limit: Annotated[int, Query(ge=1, le=MOST_LINES, description="Lines.")] = 1000,
        payload: Annotated[bool, Query(description="Show the first bytes of payloads.")] = False,
    ) -> EventStream:
        """Packets and decisions of a client, of a topic filter or of an IP address, live, as server-sent events."""
        target = ", ".join(
            f"{key} {value}"
            for key, value in (("client", client_id), ("topic", topic_filter), ("address", address))
            if value is not None
        )
        with audit.noted("trace", target):
            _check(client_id, topic_filter, address)
            begun = tracing.take(Wanted(client_id, topic_filter, address), limit, payload)
            if begun is None:
                raise HTTPException(503, "another trace runs: only one can, because it slows the clients that it shows")
        audit.done("trace", target, f"{seconds:g} s, {limit} lines, {'with' if payload else 'without'} payloads")
        return EventStream(tracing.events(begun, seconds, audit.who.still), at_end=partial(tracing.give_back, begun))

    return router


def _check(client_id: str | None, topic_filter: str | None, address: str | None) -> None:
    if client_id is None and topic_filter is None and address is None:
        raise HTTPException(422, "name a client_id, a topic_filter or an address")
    try:
        if topic_filter is not None:
            validate_topic_filter(topic_filter)
        if address is not None:
            ip_address(address)
    except (MQTTError, ValueError) as error:
        raise HTTPException(422, str(error)) from None
