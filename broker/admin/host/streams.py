"""What a host sends for a while: the moments of the dashboard, those of one session, and traces."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final

from fastapi import HTTPException, Request, Response

from broker.admin.api.audit import Audit
from broker.admin.api.dashboard import moment_events
from broker.admin.api.event_stream import EventStream
from broker.admin.api.who import OPERATOR, Asker
from broker.admin.dashboard.places import Places
from broker.admin.dashboard.viewers import Viewers
from broker.admin.host.all_cells import QUICK
from broker.admin.host.asking import CellResponse, NoAnswerError, asking
from broker.admin.host.forwarding import Forwarding
from broker.admin.host.managed_host import ManagedHost
from broker.admin.host.merged_lists import limit_of
from broker.admin.host.merged_traces import MergedTrace

LINES: Final = 1_000
"""Of a trace, if its request names no limit."""

_REFUSED: Final = 400


class Streams:
    """Answers requests with server-sent events."""

    def __init__(self, forwarding: Forwarding, viewers: Viewers, host: ManagedHost) -> None:
        self._forwarding = forwarding
        self._viewers = viewers
        self._host = host
        self._places = Places()
        self._closing: set[asyncio.Task[None]] = set()

    async def stream(self, request: Request, who: Asker) -> Response:
        """The host, or one session, each second."""
        why = self._places.take(who.name, who.role == OPERATOR)
        if why:
            raise HTTPException(503, why)
        client_id = request.query_params.get("client_id")
        opened = AsyncExitStack()
        try:
            if client_id is None:
                events = moment_events(self._viewers.moments(), who.still)
            else:
                response = await self._opened(opened, request, who, client_id)
                events = self._of_client(response, who.still)
        except BaseException:
            self._places.leave(who.name)
            await opened.aclose()
            raise

        def leave() -> None:
            self._places.leave(who.name)
            self._close(opened.aclose())

        return EventStream(events, at_end=leave)

    async def trace(self, request: Request, audit: Audit) -> Response:
        """The trace of a client in its home, any other one in all cells."""
        given = request.query_params
        limit = limit_of(given.get("limit"), LINES)
        client_id = given.get("client_id")
        cells = self._forwarding.wanted(request) if client_id is None else self._forwarding.home(request, client_id)
        question = await self._forwarding.question(request, audit.who)
        trace = MergedTrace(cells, {each.number: question for each in cells})
        await trace.begin()
        return EventStream(trace.events(limit, audit.who.still), at_end=lambda: self._close(trace.close()))

    async def _opened(self, opened: AsyncExitStack, request: Request, who: Asker, client_id: str) -> CellResponse:
        """The stream of a session from its home. Raises HTTPException."""
        (home,) = self._forwarding.home(request, client_id)
        question = await self._forwarding.question(request, who)
        try:
            response = await opened.enter_async_context(asking(home, question, QUICK))
            if response.status < _REFUSED:
                return response
            detail = json.loads(await response.body())["detail"]
        except NoAnswerError as error:
            raise HTTPException(503, f"cell {home.number} {error}") from None
        raise HTTPException(response.status, detail)

    async def _of_client(self, response: CellResponse, valid: Callable[[], bool]) -> AsyncIterator[str]:
        try:
            async for event in response.events(QUICK):
                if not valid():
                    return
                yield f"data: {json.dumps({**json.loads(event), 'broker': self._host.config.node_name})}\n\n"
        except NoAnswerError:
            return  # who asks again is told

    def _close(self, work: Coroutine[Any, Any, None]) -> None:
        """End what cells send, after the answer has ended."""
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
