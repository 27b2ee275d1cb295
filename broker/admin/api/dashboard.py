"""The dashboard: its page, which needs no token, the stream that fills it, which does, and who gets a token how."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from importlib.resources import files
from itertools import islice
from typing import Annotated, Any, Final, Literal

import structlog
from fastapi import APIRouter, Depends, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from broker.admin.api.actions import Count
from broker.admin.api.audit import Audit, operator_audit
from broker.admin.api.event_stream import EventStream
from broker.admin.api.overview import SessionDetail, session_detail
from broker.admin.api.problem import refusals
from broker.admin.api.who import OPERATOR, Asker, Finder, where_from
from broker.admin.dashboard.moment import Moment, Present
from broker.admin.dashboard.observer import present
from broker.admin.dashboard.places import Places
from broker.admin.dashboard.viewers import Viewers
from broker.admin.links import Grant, Links
from broker.admin.managed import Managed
from broker.admin.rows import SubscriptionRow
from broker.admin.subscriptions import subscription_row
from broker.runtime.clock import monotonic_us
from broker.runtime.os_errors import text_of

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
}

START: Final = "index.html"

MOST_MOMENTS: Final = 300
"""Moments after which a stream ends; the page asks again."""

MOST_FILTERS: Final = 50
"""Subscriptions that the page of a session shows."""

Where = Callable[[], Awaitable[str]]


class NewLink(BaseModel):
    """What a link is to allow."""

    model_config = ConfigDict(extra="forbid", strict=True)

    role: Literal["viewer", "operator"] = "operator"


class Link(BaseModel):
    """A link to the dashboard."""

    url: str = Field(description="It lets one browser in, once, within an hour.")


class Code(BaseModel):
    """The code of a link."""

    model_config = ConfigDict(extra="forbid", strict=True)

    code: str = Field(max_length=100)


class LetIn(BaseModel):
    """A token for the API."""

    token: str = Field(description="It counts for twelve hours, while the broker runs.")
    role: str


class Known(BaseModel):
    """Who asks."""

    name: str = Field(description="As in the audit log.")
    role: str


def page_router() -> APIRouter:
    """The page and what it loads."""
    router = APIRouter(include_in_schema=False)
    folder = files("broker.admin.dashboard").joinpath("page")
    found = {file.name: file.read_bytes() for file in folder.iterdir() if _type(file.name)}

    @router.get("/")
    async def start() -> Response:
        return Response(found[START], media_type=_TYPES["html"])

    @router.get("/dashboard/{name}")
    async def part(name: str) -> Response:
        if name not in found:
            raise HTTPException(404, "the dashboard has no such file")
        return Response(found[name], media_type=_type(name))

    return router


def _type(name: str) -> str | None:
    return _TYPES.get(name.rpartition(".")[2])


class SessionMoment(Present):
    """One session at one moment."""

    session: SessionDetail
    subscriptions: list[SubscriptionRow] = Field(description=f"At most {MOST_FILTERS}.")


def stream_router(managed: Managed, viewers: Viewers, find: Finder) -> APIRouter:
    """The stream of moments."""
    router = APIRouter(tags=["dashboard"])
    places = Places()
    Who = Annotated[Asker, Depends(find)]  # noqa: N806 - a type, whose dependency is known only here

    schema: dict[int | str, dict[str, Any]] = {200: {"model": Moment | SessionMoment}, **refusals(404, 503)}

    @router.get("/stream", response_class=EventStream, responses=schema)
    async def stream(asker: Who, client_id: str | None = None) -> EventStream:
        """The broker, or one session, each second, as server-sent events: the data of each is JSON of this schema."""
        if client_id is not None and managed.broker.clients.get(client_id) is None:
            raise HTTPException(404, f"there is no session {client_id[:256]!r}")
        why = places.take(asker.name, asker.role == OPERATOR)
        if why:
            raise HTTPException(503, why)
        if client_id is None:
            moments = viewers.moments()
        else:
            moments = viewers.each_second(lambda: _session(managed, client_id))
        return EventStream(moment_events(moments, asker.still), at_end=lambda: places.leave(asker.name))

    return router


async def moment_events(moments: AsyncGenerator[str, None], valid: Callable[[], bool]) -> AsyncIterator[str]:
    """Moments as server-sent events, as long as the answer is `valid`."""
    async with aclosing(moments):
        for _ in range(MOST_MOMENTS):
            text = await anext(moments, None)
            if text is None or not valid():
                return
            yield f"data: {text}\n\n"


def _session(managed: Managed, client_id: str) -> str | None:
    """A session now; None if it has ended."""
    client = managed.broker.clients.get(client_id)
    if client is None:
        return None
    filters = islice((client.session.subscriptions or {}).values(), MOST_FILTERS)
    return SessionMoment(
        **present(managed),
        session=session_detail(client, monotonic_us()),
        subscriptions=[subscription_row(client, each) for each in filters],
    ).model_dump_json()


def login_router(links: Links) -> APIRouter:
    """Exchanges the code of a link for a token. No token is needed, and nothing else lets anybody in."""
    router = APIRouter(tags=["dashboard"])
    log = structlog.get_logger("sluice")

    @router.post("/login")
    async def login(given: Code, request: Request) -> LetIn:
        """Exchange the code of a link, which then counts no more."""
        found = links.exchange(given.code)
        peer = where_from(request)
        if found is None:
            Audit(log, Asker("nobody", "", peer)).refused("login", "", "the link is unknown, used or too old")
            raise HTTPException(403, "the link has been used, or is too old: `sluice dashboard` prints another")
        token, grant = found
        Audit(log, Asker(grant.who, grant.role, peer)).done("login", grant.role, "let in")
        return LetIn(token=token, role=grant.role)

    return router


def links_router(links: Links, find: Finder, where: Where) -> APIRouter:
    """Makes links, and says who asks."""
    router = APIRouter(tags=["dashboard"])
    Who = Annotated[Asker, Depends(find)]  # noqa: N806 - a type, whose dependency is known only here
    Log = Annotated[Audit, Depends(operator_audit(find))]  # noqa: N806 - as above

    @router.get("/who")
    async def who(asker: Who) -> Known:
        """Who asks, and their role."""
        return Known(name=asker.name, role=asker.role)

    @router.post("/links", responses=refusals(503))
    async def link(wanted: NewLink, audit: Log) -> Link:
        """A link to the dashboard, for who asks on the Unix socket; without `admin.listen` it opens a loopback port."""
        if audit.who.peer != "unix":  # a token that is taken away must not leave others behind
            audit.refused("link", wanted.role)
            raise HTTPException(403, "links are for those who ask on the Unix socket: on TCP, use the token itself")
        with audit.noted("link", wanted.role):
            try:
                base = await where()
            except OSError as error:
                raise HTTPException(503, f"the dashboard's port cannot be opened: {text_of(error)}") from None
        audit.done("link", wanted.role, base)
        return Link(url=links.url(base, Grant(f"link of {audit.who.name}", wanted.role)))

    @router.delete("/links")
    async def revoke(audit: Log) -> Count:
        """Revoke all links and what browsers have got for them; returns how many. Those who look are sent away."""
        count = links.revoke()
        audit.done("revoke_links", "", f"{count} revoked")
        return Count(count=count)

    return router
