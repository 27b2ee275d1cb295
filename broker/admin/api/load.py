"""Builds the application, in a thread: imports and routes take a third of a second."""

import asyncio
import logging
from typing import Any, Final, Protocol

import uvicorn
from uvicorn.server import ServerState

from broker.admin.api.app import Api
from broker.admin.api.dashboard import Where
from broker.admin.links import Links
from broker.admin.managed import Managed

LONGEST_HEAD: Final = 256 * 1024
"""Bytes of a request before its body: a client id of 64 KB may be in it, each byte written as %XX."""


class Application(Protocol):
    """What is served."""

    app: Any
    """The ASGI application."""

    def stop(self) -> None:
        """Cancel what is running."""


def load_api(managed: Managed, links: Links, where: Where) -> tuple[Application, uvicorn.Config, ServerState]:
    """The API of one broker. Nothing of the broker is touched: that belongs to its loop."""
    return ready(Api(managed, links, where))


def ready(api: Application) -> tuple[Application, uvicorn.Config, ServerState]:
    """The application, uvicorn's settings and its state."""
    config = uvicorn.Config(
        api.app,
        http="h11",
        h11_max_incomplete_event_size=LONGEST_HEAD,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    config.load()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # its warnings are about what any peer may send
    asyncio.run(_warm_up(api))
    return api, config, ServerState()


async def _warm_up(api: Application) -> None:
    """Answer a request: what is imported and built for the first one takes 40 ms."""
    await api.app(_SCOPE, _receive, _send)


_SCOPE: Final[dict[str, Any]] = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "GET",
    "scheme": "http",
    "path": "/api/v1/nothing",
    "raw_path": b"/api/v1/nothing",
    "query_string": b"",
    "root_path": "",
    "headers": [],
    "client": None,
    "server": None,
    "state": {"trusted": True, "uid": None},
}


async def _receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send(message: Any) -> None:
    """Nobody has asked."""
