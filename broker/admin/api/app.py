"""The application: all endpoints, and what holds for each of them."""

from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.convertors import Convertor, register_url_convertor

from broker import __version__
from broker.admin.api.actions import actions_router, messages_router
from broker.admin.api.audit import Audit
from broker.admin.api.browsers import foreign
from broker.admin.api.dashboard import Where, links_router, login_router, page_router, stream_router
from broker.admin.api.deadlines import Deadlines
from broker.admin.api.docs import docs_router
from broker.admin.api.health import health_router
from broker.admin.api.lists import Lists, lists_router
from broker.admin.api.methods import Methods
from broker.admin.api.metrics import metrics_router
from broker.admin.api.overview import overview_router, session_router
from broker.admin.api.problem import EVERYWHERE, refusals
from broker.admin.api.reloading import reload_router
from broker.admin.api.strangers import Strangers
from broker.admin.api.tracing import Tracing, trace_router
from broker.admin.api.who import Finder, Tokens
from broker.admin.dashboard.observer import Observer
from broker.admin.dashboard.viewers import Viewers
from broker.admin.links import Links
from broker.admin.managed import Managed
from config.expected import expected

PREFIX: Final = "/api/v1"

MOST_BODY: Final = 256 * 1024
"""Bytes of a request's body: JSON of this size is parsed in a millisecond."""

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Of every answer. Client ids and topics are whatever clients send: nothing but our own script runs, none is inline."""


class _Any(Convertor[str]):
    """Any text in a path, as client ids are: with slashes and line ends."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """As it is."""
        return value

    def to_string(self, value: str) -> str:
        """As it is."""
        return value


register_url_convertor("any", _Any())


def new_app() -> FastAPI:
    """An application without endpoints."""
    return FastAPI(
        title="Sluice",
        version=__version__,
        description="The admin API of a Sluice broker.",
        docs_url=None,  # its page would come from outside
        redoc_url=None,
        openapi_url=None,
        responses=EVERYWHERE,
    )


class Api:
    """The application of one broker."""

    def __init__(self, managed: Managed, links: Links, where: Where) -> None:
        """`where`: opens the address of the dashboard, if it is not open, and returns its URL."""
        self.lists = Lists(managed)
        self.tracing = Tracing(managed)
        self.viewers = Viewers(Observer(managed, self.lists.pages))
        app = self.app = new_app()
        tokens = Tokens(lambda: managed.config.admin.tokens, links)
        find = Finder(tokens, managed.broker.totals, for_others=managed.config.cluster.count > 1)
        viewing = [Depends(find)]
        app.include_router(page_router())
        app.include_router(login_router(links), prefix=PREFIX)
        app.include_router(health_router(managed))
        app.include_router(metrics_router(managed), dependencies=viewing, responses=refusals(401))
        api = APIRouter(prefix=PREFIX, dependencies=viewing, responses=refusals(401))
        api.include_router(lists_router(self.lists))
        api.include_router(overview_router(managed))
        api.include_router(stream_router(managed, self.viewers, find))
        api.include_router(links_router(links, find, where))
        api.include_router(session_router(managed))
        api.include_router(actions_router(managed, find, self.lists.forget))
        api.include_router(messages_router(managed, find, self.lists.forget))
        api.include_router(reload_router(managed, find))
        api.include_router(trace_router(self.tracing, find))

        api.include_router(docs_router(app.openapi))
        app.include_router(api)
        guard(app, tokens)

    def stop(self) -> None:
        """Cancel what is running."""
        self.lists.stop()
        self.viewers.stop()
        self.tracing.stop()


def guard(app: FastAPI, tokens: Tokens) -> None:
    """What holds for each request, whatever it asks for."""
    app.add_exception_handler(RequestValidationError, _wrong)
    app.add_middleware(Methods, routes=app.routes)
    app.add_middleware(_Headers)
    app.add_middleware(Strangers, tokens=tokens)
    app.add_middleware(Deadlines)


async def _wrong(request: Request, error: Exception) -> JSONResponse:
    """Say what is wrong with a request, without what it held: that may be large, or not JSON."""
    assert isinstance(error, RequestValidationError)
    found = [
        f"{'.'.join(map(str, each['loc'][1:]))}: {expected(each['type'], each.get('ctx', {}))}"
        for each in error.errors()
    ]
    detail = "; ".join(found)[:2000]
    audit: Audit | None = getattr(request.state, "audit", None)
    if audit is not None:
        audit.refused(f"{request.method} {request.url.path}", "", detail)
    return JSONResponse({"detail": detail}, 422)


def _too_large(scope: Any) -> JSONResponse | None:
    """The refusal of a body that is too large, or whose size is not known before."""
    headers = dict(scope.get("headers", ()))
    if b"transfer-encoding" in headers:
        return JSONResponse({"detail": "send the length of the body, not chunks"}, 411)
    length = headers.get(b"content-length", b"0")
    if int(length) > MOST_BODY:
        return JSONResponse({"detail": f"the body has {int(length)} bytes, and may have {MOST_BODY}"}, 413)
    return None


class _Headers:
    """Adds HEADERS to every answer, refuses what other pages send, and large bodies: to parse one holds the loop."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        wrong = foreign(scope) or _too_large(scope)
        if wrong is not None:
            await wrong(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_ENCODED]
            await send(message)

        await self._app(scope, receive, send_with_headers)


_ENCODED: Final = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
