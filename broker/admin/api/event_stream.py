"""Server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi.responses import StreamingResponse


class EventStream(StreamingResponse):
    """Ends when its events do, or when the peer leaves.

    Without Starlette's task group, which leaves cycles of objects behind: a stream lives too long for the garbage
    collector to find them (`broker/server/garbage.py`).
    """

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncIterator[str], status_code: int = 200, at_end: Callable[[], None] = lambda: None
    ) -> None:
        """`at_end` is called when the stream has ended, however it does. FastAPI looks for `status_code` here."""
        super().__init__(events, status_code)
        self._at_end = at_end

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self.stream_response(send)), loop.create_task(self.listen_for_disconnect(receive))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self._at_end()
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
