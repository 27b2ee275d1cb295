"""Traces of several cells as one: their lines as they come, each with its cell."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Final

import h11
from fastapi import HTTPException

from broker.admin.host.all_cells import CellAnswer
from broker.admin.host.asking import CellQuestion, CellResponse, NoAnswerError, asking
from broker.admin.host.managed_host import AskedCell

PATIENCE: Final = 5.0
"""Seconds that a cell has to begin its trace."""

MOST_PENDING: Final = 10_000
"""Lines that may wait for a slow reader, until cells are not read any more: they count what is lost."""

QUIET: Final = 10.0
"""Seconds without a line after which an empty one is sent: it shows that the trace still runs."""

LATE: Final = 30.0
"""Seconds without anything from a cell after which it has no more to tell."""

_REFUSED: Final = 400


class MergedTrace:
    """One trace of some cells."""

    def __init__(self, cells: Sequence[AskedCell], questions: Mapping[int, CellQuestion]) -> None:
        self._cells = cells
        self._questions = questions
        self._open = AsyncExitStack()
        self._streams: dict[int, CellResponse] = {}
        self._missing: dict[int, str] = {}
        self._lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MOST_PENDING)

    async def begin(self) -> None:
        """Begin in each cell. Raises HTTPException if one refuses, or none answers; else cells that do not are told."""
        found = await asyncio.gather(*(self._begin(each) for each in self._cells))
        refused = next((each for each in found if each is not None), None)
        if refused is not None or not self._streams:
            await self.close()
        if refused is not None:
            raise HTTPException(refused.status, f"cell {refused.cell}: {refused.detail}")
        if not self._streams:
            raise HTTPException(503, "; ".join(f"cell {number} {why}" for number, why in self._missing.items()))

    async def _begin(self, cell: AskedCell) -> CellAnswer | None:
        """Returns the refusal, if it is one."""
        number = cell.number
        try:
            response = await self._open.enter_async_context(asking(cell, self._questions[number], PATIENCE))
            if response.status >= _REFUSED:
                return CellAnswer(number, response.status, response.content_type, await response.body())
            self._streams[number] = response
        except NoAnswerError as error:
            self._missing[number] = str(error)
        return None

    async def close(self) -> None:
        """End it in all cells."""
        await self._open.aclose()

    async def events(self, limit: int, valid: Callable[[], bool]) -> AsyncGenerator[str, None]:
        """The lines as server-sent events, until all cells have ended, or there are so many."""
        readers = {number: asyncio.ensure_future(self._read(number)) for number in self._streams}
        left, running = limit, len(readers)
        try:
            for number, why in self._missing.items():
                yield _event(_ended(number, why))
            while left > 0 and running:
                line = await self._line()
                if not valid():
                    return
                if line is _END:
                    running -= 1
                    continue
                left -= line is not None and line["event"] not in _NO_LINES
                yield ": still running\n\n" if line is None else _event(line)
            if left <= 0:
                yield _event(_ended(None, "the limit of lines is reached"))
        finally:
            for each in readers.values():
                each.cancel()
            await asyncio.wait(readers.values())
            await self.close()

    async def _line(self) -> dict[str, Any] | None:
        """The next line; None if there is none for a while."""
        try:
            async with asyncio.timeout(QUIET):
                return await self._lines.get()
        except TimeoutError:
            return None

    async def _read(self, number: int) -> None:
        """Take the lines of one cell."""
        last: dict[str, Any] = {}
        why = "has ended its trace"
        try:
            async for event in self._streams[number].events(LATE):
                last = json.loads(event)
                await self._lines.put({**last, "cell": number})
        except NoAnswerError as error:
            why = str(error)
        except (OSError, h11.RemoteProtocolError):
            pass
        if last.get("event") != "ended":
            await self._lines.put(_ended(number, why))
        await self._lines.put(_END)


_END: Final[dict[str, Any]] = {}
"""After the last line of a cell."""


def _event(line: dict[str, Any]) -> str:
    return f"data: {json.dumps(line)}\n\n"


_NO_LINES: Final = ("began", "ended")
"""Events that do not count for the limit: each cell has its own."""


def _ended(cell: int | None, why: str) -> dict[str, Any]:
    """The line that says why no more lines come, of one cell or of all."""
    line: dict[str, Any] = dict.fromkeys(("client_id", "user", "address", "packet", "topic"))
    line |= {"at": datetime.now(UTC).isoformat(timespec="microseconds"), "event": "ended", "lost": 0}
    return line | {"text": why if cell is None else f"cell {cell} {why}", "cell": cell}
