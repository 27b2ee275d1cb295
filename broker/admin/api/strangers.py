"""Requests without a valid token take turns: however many ask, and whatever for, MQTT and operators are served."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from fastapi.security.utils import get_authorization_scheme_param

if TYPE_CHECKING:
    from broker.admin.api.who import Tokens
    from broker.admin.connection import AdminConnection

PACE: Final = 0.01
"""Seconds from one of them to the next. Each takes half a millisecond: together a twentieth of the loop's time. As each
connection has one request in hand, a health check waits 0.7 s at most, behind those of all other connections."""

BURST: Final = 10
"""So many at once do not wait, if there were none before: a page and what it loads."""


class Strangers:
    """Tells the connection of each request whether it has shown a valid token, and has the others take turns."""

    def __init__(self, app: Any, tokens: "Tokens") -> None:
        self._app = app
        self._tokens = tokens
        self._turn = asyncio.Lock()  # served in the order of asking
        self._next = 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        connection: AdminConnection | None = scope["state"].get("connection")
        if connection is not None and not connection.trusted:
            connection.stranger = not self._has_token(scope)
            if connection.stranger and not await self._may_go_on(connection):
                return
        await self._app(scope, receive, send)

    def _has_token(self, scope: Any) -> bool:
        header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        scheme, token = get_authorization_scheme_param(header)
        return scheme.lower() == "bearer" and self._tokens.find(token) is not None

    async def _may_go_on(self, connection: "AdminConnection") -> bool:
        """Wait for a turn; False if the connection has ended meanwhile, which then takes none."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            if not connection.is_open:
                return False
            now = loop.time()
            self._next = max(self._next, now - BURST * PACE) + PACE
            if self._next > now:
                await asyncio.sleep(self._next - now)
        return True
