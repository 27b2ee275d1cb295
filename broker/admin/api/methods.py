"""HEAD for probes, OPTIONS, and what is no request of HTTP: upgrades to WebSocket."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi.responses import JSONResponse, Response
from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute

HEAD: Final = ("/health", "/ready", "/metrics", "/")
"""Paths that answer HEAD as GET, without a body: load balancers ask so."""


class Methods:
    """Answers them, and passes on all other requests."""

    def __init__(self, app: Any, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if dict(scope["headers"]).get(b"upgrade", b"").lower() == b"websocket":
            refused = JSONResponse({"detail": "the API has no WebSocket: MQTT over it has a listener of its own"}, 400)
            await refused(scope, receive, send)
        elif scope["method"] == "OPTIONS" and (allowed := self._allowed(scope["path"])):
            # Without the headers of CORS: no other origin may ask.
            await Response(status_code=204, headers={"Allow": ", ".join(allowed)})(scope, receive, send)
        elif scope["method"] == "HEAD" and scope["path"] in HEAD:
            await self._app({**scope, "method": "GET"}, receive, send)  # uvicorn, with its own scope, sends no body
        else:
            await self._app(scope, receive, send)

    def _allowed(self, path: str) -> list[str]:
        """The methods of a path, which are none if there is no such path."""
        found = {"HEAD"} if path in HEAD else set()
        for route in iter_route_contexts(self._routes):
            if route.path_regex.match(path):
                found |= route.methods or set()
        return sorted(found | {"OPTIONS"}) if found else []
