"""The application of a host: which cells a request goes to, and what their answers become."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response

from broker.admin.api.app import PREFIX, guard, new_app
from broker.admin.api.audit import Audit, operator_audit
from broker.admin.api.dashboard import Where, links_router, login_router, page_router
from broker.admin.api.lists import QUERIES
from broker.admin.api.problem import refusals
from broker.admin.api.who import Asker, Finder, Tokens
from broker.admin.dashboard.viewers import Viewers
from broker.admin.host.actions import Actions
from broker.admin.host.forwarding import KEEPER, Forwarding
from broker.admin.host.managed_host import ManagedHost
from broker.admin.host.merged_moments import HostObserver
from broker.admin.host.merging import alike, count
from broker.admin.host.streams import Streams
from broker.admin.host.views import Views
from broker.admin.links import Links
from broker.totals import Totals

Read = Callable[[Request, Asker], Awaitable[Response]]
Act = Callable[[Request, Audit], Awaitable[Response]]


class HostApi:
    """Answers for all cells of a host."""

    def __init__(self, host: ManagedHost, links: Links, where: Where) -> None:
        """`where`: opens the address of the dashboard, if it is not open, and returns its URL."""
        app = self.app = new_app()
        totals = Totals()
        tokens = Tokens(lambda: host.config.admin.tokens, links)
        find = Finder(tokens, totals)
        forwarding = Forwarding(host)
        views, actions = Views(host, forwarding, totals), Actions(host, forwarding)
        self.viewers = Viewers(HostObserver(host, forwarding.headers(KEEPER)))
        streams = Streams(forwarding, self.viewers, host)
        app.include_router(page_router())
        app.include_router(login_router(links), prefix=PREFIX)
        app.add_api_route("/health", views.health, methods=["GET"])
        app.add_api_route("/ready", views.ready, methods=["GET"])
        _reading(app, find, {"/metrics": views.metrics})
        api = APIRouter(prefix=PREFIX, responses=refusals(401))
        api.include_router(links_router(links, find, where), dependencies=[Depends(find)])
        _reading(
            api,
            find,
            {
                **{f"/{name}": partial(views.listed, name) for name in QUERIES},
                "/broker": views.overview,
                "/listeners": partial(views.of_all, alike),
                "/configuration": views.configuration,
                "/sessions/{client_id:any}": views.of_client,
                "/stream": streams.stream,
                "/openapi.json": views.of_any,
                "/docs": views.of_any,
            },
        )
        _acting(
            api,
            find,
            {
                ("DELETE", "/clients/{client_id:any}"): actions.of_client,
                ("DELETE", "/sessions/{client_id:any}"): actions.of_client,
                ("POST", "/addresses/drain"): partial(actions.of_those_who_have_it, count(sum)),
                ("POST", "/bridges/{name}/reconnect"): partial(actions.of_those_who_have_it, None),
                ("DELETE", "/retained"): partial(actions.of_all, count(max)),
                ("POST", "/publish"): actions.publish,
                ("POST", "/reload"): actions.reload,
                ("GET", "/trace"): streams.trace,
            },
        )
        app.include_router(api)
        guard(app, tokens)

    def stop(self) -> None:
        """Cancel what is running."""
        self.viewers.stop()


def _reading(router: APIRouter | FastAPI, find: Finder, endpoints: dict[str, Read]) -> None:
    """Endpoints for all who may look."""

    def endpoint(read: Read) -> Callable[..., Any]:
        async def answer(request: Request, who: Annotated[Asker, Depends(find)]) -> Response:
            return await read(request, who)

        return answer

    for path, read in endpoints.items():
        router.add_api_route(path, endpoint(read), methods=["GET"], response_model=None)


def _acting(router: APIRouter, find: Finder, endpoints: dict[tuple[str, str], Act]) -> None:
    """Endpoints for operators: the refusal of others is written to the audit log here, what is done by the cells."""
    audited = Depends(operator_audit(find))

    def endpoint(act: Act) -> Callable[..., Any]:
        async def answer(request: Request, audit: Annotated[Audit, audited]) -> Response:
            return await act(request, audit)

        return answer

    for (method, path), act in endpoints.items():
        router.add_api_route(path, endpoint(act), methods=[method], response_model=None)
