"""Refuses what a page from elsewhere has made a browser send.

There are no cookies, and over TCP every request needs a token in a header, which no other page has. But a browser may
reach the Unix socket too, by `ssh -L 8080:/run/sluice/node.sock`, and there no token is needed.
"""

import re
from typing import Any, Final

from fastapi.responses import JSONResponse

_OWN: Final = re.compile(rb"(?:sluice|localhost|[\d.]+|\[[\da-f:.]+\])(?::\d+)?", re.IGNORECASE)
"""Hosts that no name server decides about. To any other name its owner may give this machine's address, so that the
owner's page counts as of the same origin (DNS rebinding)."""


PAGE: Final = "/"
"""The dashboard's page: pages and mails may link to it."""


def foreign(scope: Any) -> JSONResponse | None:
    """The refusal of a request that a page of another origin has sent; None if it may be our own."""
    headers = dict(scope.get("headers", ()))
    host = headers.get(b"host", b"")
    origin = headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2] != host:
        return JSONResponse({"detail": "a page of another origin has sent this"}, 403)
    linked = scope["path"] == PAGE and headers.get(b"sec-fetch-mode") == b"navigate"
    if headers.get(b"sec-fetch-site", b"none") not in _SAME and not linked:
        return JSONResponse({"detail": "a page of another site has sent this"}, 403)
    if scope["state"]["trusted"] and host and not _OWN.fullmatch(host):
        return JSONResponse({"detail": "on the Unix socket, use the host sluice or localhost"}, 421)
    return None


_SAME: Final = (b"none", b"same-origin")
