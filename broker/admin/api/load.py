"""Builds the application, in a thread: imports and schemas take a third of a second."""

import asyncio
import logging
from typing import Any, Final

import uvicorn
from uvicorn.server import ServerState

from broker.admin.api.app import Api
from broker.admin.api.dashboard import Where
from broker.admin.links import Links
from broker.admin.managed import Managed

LONGEST_HEAD: Final = 256 * 1024
"""Bytes of a request before its body: a client id of 64 KB may be in it, each byte written as %XX."""


def load(managed: Managed, links: Links, where: Where) -> tuple[Api, uvicorn.Config, ServerState]:
    """The application, uvicorn's settings and its state. Nothing of the broker is touched: that belongs to its loop."""
    api = Api(managed, links, where)
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


async def _warm_up(api: Api) -> None:
    """Answer some requests: what is imported and built for the first ones takes 40 ms."""
    for path in ("/api/v1/openapi.json", "/api/v1/docs", "/api/v1/nothing"):
        await api.app(_scope(path), _receive, _send)


def _scope(path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
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
