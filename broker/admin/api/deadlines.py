"""A peer has a limited time to send a request. While it waits for the answer, it has any."""

from typing import Any


class Deadlines:
    """Tells the connection of each request when it has come whole, and when it is answered."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        connection = scope["state"].get("connection")
        if connection is None:  # the application answers itself once, to be ready
            await self._app(scope, receive, send)
            return

        async def receive_and_note() -> Any:
            message = await receive()
            if not message.get("more_body", False):
                connection.has_request()
            return message

        if int(dict(scope["headers"]).get(b"content-length", b"0")) == 0:
            connection.has_request()
        try:
            await self._app(scope, receive_and_note, send)
        finally:
            connection.expect_request()
