"""One request to one cell, over its Unix socket."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeVar

import h11

from broker.admin.host.managed_host import AskedCell
from broker.runtime.os_errors import text_of

T = TypeVar("T")

LOOK: Final = 0.5
"""Seconds between two looks whether a cell that has not answered yet lives."""

LONGEST_ANSWER: Final = 32 * 1024 * 1024
"""Bytes of an answer: metrics, and a thousand rows with long names, are far smaller."""

_CHUNK: Final = 65_536
_BETWEEN: Final = b"\n\n"
_DATA: Final = b"data: "


class CellQuestion(NamedTuple):
    """A request."""

    method: str
    target: str
    """Path and query, encoded."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""


class NoAnswerError(Exception):
    """A cell does not answer; the message is the end of a sentence that begins with the cell."""


class CellResponse:
    """The answer of a cell, whose body is still to come."""

    def __init__(self, cell: AskedCell, reader: asyncio.StreamReader, connection: h11.Connection) -> None:
        self._cell = cell
        self.status = 0
        self.content_type = ""
        self._reader = reader
        self._connection = connection

    async def begin(self) -> None:
        """Read its head."""
        event = await self._next()
        while isinstance(event, h11.InformationalResponse):
            event = await self._next()
        if not isinstance(event, h11.Response):
            raise NoAnswerError("has closed the connection without an answer")
        self.status = event.status_code
        self.content_type = dict(event.headers).get(b"content-type", b"").decode("latin-1")

    async def chunks(self) -> AsyncIterator[bytes]:
        """The parts of its body, as they come."""
        while isinstance(event := await self._next(), h11.Data):
            yield bytes(event.data)

    async def body(self) -> bytes:
        """The whole body."""
        found = bytearray()
        async for chunk in self.chunks():
            found += chunk
            if len(found) > LONGEST_ANSWER:
                raise NoAnswerError(f"has answered with more than {LONGEST_ANSWER} bytes: ask for less")
        return bytes(found)

    async def events(self, seconds: float) -> AsyncIterator[bytes]:
        """The data of server-sent events, as they come; something has to come within so many seconds."""
        chunks = self.chunks()
        rest = b""
        while (chunk := await in_time(self._cell, anext(chunks, b""), seconds)) != b"":
            *events, rest = (rest + chunk).split(_BETWEEN)
            for event in events:
                if event.startswith(_DATA):
                    yield event.removeprefix(_DATA)

    async def _next(self) -> Any:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            self._connection.receive_data(await self._reader.read(_CHUNK))
        return event


@asynccontextmanager
async def asking(cell: AskedCell, question: CellQuestion, seconds: float) -> AsyncIterator[CellResponse]:
    """Ask, and wait so long for the beginning of the answer. Raises NoAnswerError, also while the answer is read."""
    opened: asyncio.StreamWriter | None = None
    try:
        reader, writer = await in_time(cell, asyncio.open_unix_connection(cell.admin_socket), seconds)
        opened = writer
        connection = h11.Connection(h11.CLIENT)
        length = str(len(question.body)).encode()
        headers = [(b"host", b"sluice"), *question.headers, (b"content-length", length), (b"connection", b"close")]
        writer.write(
            (connection.send(h11.Request(method=question.method, target=question.target, headers=headers)) or b"")
            + (connection.send(h11.Data(data=question.body)) or b"")
            + (connection.send(h11.EndOfMessage()) or b"")
        )
        response = CellResponse(cell, reader, connection)
        await in_time(cell, response.begin(), seconds)
        yield response
    except OSError as error:
        raise NoAnswerError(cell.trouble() or f"cannot be asked: {text_of(error)}") from None
    except h11.RemoteProtocolError:
        raise NoAnswerError(cell.trouble() or "has ended its answer in the middle") from None
    finally:
        if opened is not None:
            opened.close()


async def in_time(cell: AskedCell, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What `work` returns. Raises NoAnswerError after so many seconds, and if the cell cannot answer any more."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    end = loop.time() + seconds
    try:
        while not task.done():
            if why := cell.trouble():
                raise NoAnswerError(why)
            left = end - loop.time()
            if left <= 0:
                raise NoAnswerError(f"has not answered within {seconds:g} s")
            await asyncio.wait([task], timeout=min(LOOK, left))
        return task.result()
    finally:
        task.cancel()
