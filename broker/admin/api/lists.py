"""The lists: clients, sessions, subscriptions, groups, addresses, retained messages and bridges."""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from broker.admin.addresses import AddressListing
from broker.admin.bridges import BridgeListing
from broker.admin.clients import ClientListing
from broker.admin.groups import GroupListing
from broker.admin.list_pages import ListPages
from broker.admin.listing import DEFAULT_LIMIT, MOST_ROWS, Listing, ListQuery
from broker.admin.managed import Managed
from broker.admin.retained import RetainedListing
from broker.admin.rows import AddressRow, BridgeRow, ClientRow, GroupRow, RetainedRow, SessionRow, SubscriptionRow
from broker.admin.sessions import SessionListing
from broker.admin.subscriptions import SubscriptionListing

Row = TypeVar("Row", bound=BaseModel)

LONGEST_CURSOR: Final = 180_000
"""Characters of `after`: client id and filter may have 64 KB each, of which base64 makes a third more."""


class Listed(BaseModel, Generic[Row]):
    """A page of a list."""

    broker: str
    what: str = Field(description="The name of the list.")
    sort: str
    total: int = Field(description="All items of this kind.")
    matched: int = Field(description="Those that the filters match, on all pages.")
    time_us: int = Field(description="When the list was made: microseconds since 1970 UTC.")
    clock_us: int = Field(description="The same moment on the broker's monotonic clock.")
    next: str | None = Field(description="The `after` of the next page; null = this is the last one.")
    items: list[Row]
    places: list[tuple[int, str]] | None = Field(None, description="Only if they are asked for.")


class Paging(BaseModel):
    """What all lists may be asked."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MOST_ROWS)
    after: str | None = Field(None, max_length=LONGEST_CURSOR, description="`next` of the page before.")
    places: bool = Field(False, description="Also say by which value and name each item is sorted.")


class ClientsQuery(Paging):
    """How to list clients."""

    sort: Literal["name", "subscriptions"] = "name"
    client_id: str | None = Field(None, description="A part of the client id.")
    user: str | None = None
    listener: str | None = None


class SessionsQuery(Paging):
    """How to list sessions."""

    sort: Literal[
        "mqueue", "name", "mailbox", "bytes", "window", "window_full", "sent", "drops", "patience"
    ] = "mqueue"
    client_id: str | None = Field(None, description="A part of the client id.")
    user: str | None = Field(None, description="Whom its last connection has authenticated as.")
    connected: bool | None = None
    listener: str | None = None
    protocol_version: Literal[4, 5] | None = None
    waits_for: (
        Literal["nothing", "client", "send path", "window", "byte window", "rate", "turn", "disk"] | None
    ) = None


class SubscriptionsQuery(Paging):
    """How to list subscriptions."""

    sort: Literal["name", "qos"] = "name"
    client_id: str | None = Field(None, description="The whole client id.")
    topic_filter: str | None = Field(None, description="A part of the filter.")
    shared: bool | None = None


class GroupsQuery(Paging):
    """How to list groups."""

    sort: Literal["mqueue", "name", "bytes", "drops", "patience"] = "mqueue"
    group: str | None = Field(None, description="A part of the name.")


class AddressesQuery(Paging):
    """How to list addresses."""

    sort: Literal["bytes", "name", "waiting", "refused", "drops"] = "bytes"
    address: str | None = Field(None, description="A part of the topic.")
    full_policy: Literal["block", "page", "drop", "fail"] | None = None


class RetainedQuery(Paging):
    """How to list retained messages."""

    sort: Literal["name", "bytes"] = "name"
    topic: str | None = Field(None, description="A part of the topic.")
    sys: bool | None = Field(None, description="Whether to list those under $SYS; null = they too.")


class BridgesQuery(Paging):
    """How to list bridges."""

    sort: Literal["name", "queue", "bytes", "oldest", "drops"] = "name"
    bridge: str | None = Field(None, description="A part of the name.")
    state: Literal["starting", "connecting", "connected", "waiting", "idle", "ended"] | None = None


QUERIES: Final[dict[str, type[Paging]]] = {
    "clients": ClientsQuery,
    "sessions": SessionsQuery,
    "subscriptions": SubscriptionsQuery,
    "groups": GroupsQuery,
    "addresses": AddressesQuery,
    "retained": RetainedQuery,
    "bridges": BridgesQuery,
}
"""The query of each list, by its name in the path."""


class Lists:
    """Answers queries of all lists."""

    def __init__(self, managed: Managed) -> None:
        self._managed = managed
        broker = managed.broker
        listings: dict[str, Listing[Any]] = {
            "clients": ClientListing(broker.clients),
            "sessions": SessionListing(broker.clients),
            "subscriptions": SubscriptionListing(broker.clients),
            "groups": GroupListing(broker.router.shared),
            "addresses": AddressListing(broker.router.addresses),
            "retained": RetainedListing(broker.retained),
            "bridges": BridgeListing(managed.bridges),
        }
        self.pages: dict[str, ListPages[Any]] = {name: ListPages(listing) for name, listing in listings.items()}

    async def answer(self, name: str, query: Paging) -> Response:
        """A page of the list `name`, in the form of `Listed`. Raises HTTPException for a wrong cursor."""
        pages = self.pages[name]
        given = query.model_dump(exclude={"limit", "after", "sort", "places"}, exclude_none=True)
        after, including = (None, False) if query.after is None else read_cursor(query.after)
        question = ListQuery(
            query.sort,  # type: ignore[attr-defined]  # each of QUERIES has it, with its own values
            query.limit,
            after,
            tuple(sorted(given.items())),
            including,
        )
        page = await pages.page(question)
        head = {
            "broker": self._managed.config.node_name,
            "what": name,
            "sort": question.sort,
            "total": page.total,
            "matched": page.matched,
            "time_us": page.time_us,
            "clock_us": page.clock_us,
            "next": None if page.last is None else cursor(page.last),
        }
        if query.places:
            head["places"] = page.places
        # The rows are JSON already, made in slices.
        text = f'{json.dumps(head)[:-1]}, "items": [{",".join(page.rows)}]}}\n'
        return Response(text, media_type="application/json")

    def forget(self) -> None:
        """An action has changed something: the next answers have it."""
        for pages in self.pages.values():
            pages.forget()

    def stop(self) -> None:
        """Cancel what is running."""
        for pages in self.pages.values():
            pages.stop()


_PLACE: Final = re.compile("(-?[0-9]+)([ =])(.*)", re.DOTALL)


def cursor(place: tuple[int, str], including: bool = False) -> str:
    """The text for a place in a list; `including`: what is at the place belongs to the page after it."""
    value, name = place
    return urlsafe_b64encode(f"{value}{'=' if including else ' '}{name}".encode()).decode()


def read_cursor(text: str) -> tuple[tuple[int, str], bool]:
    """The place, and whether to include it. Raises HTTPException."""
    try:
        found = _PLACE.fullmatch(urlsafe_b64decode(text).decode())
        if found is not None:
            return (int(found[1]), found[3]), found[2] == "="
    except ValueError:
        pass
    raise HTTPException(422, "after: write the `next` of the page before")


def lists_router(lists: Lists) -> APIRouter:
    """The endpoints of the lists."""
    router = APIRouter(tags=["lists"])

    @router.get("/clients", response_model=Listed[ClientRow])
    async def list_clients(query: Annotated[ClientsQuery, Query()]) -> Response:
        """Connected clients."""
        return await lists.answer("clients", query)

    @router.get("/sessions", response_model=Listed[SessionRow])
    async def list_sessions(query: Annotated[SessionsQuery, Query()]) -> Response:
        """Sessions, connected or not, with what waits in each."""
        return await lists.answer("sessions", query)

    @router.get("/subscriptions", response_model=Listed[SubscriptionRow])
    async def list_subscriptions(query: Annotated[SubscriptionsQuery, Query()]) -> Response:
        """Subscriptions of all sessions."""
        return await lists.answer("subscriptions", query)

    @router.get("/groups", response_model=Listed[GroupRow])
    async def list_groups(query: Annotated[GroupsQuery, Query()]) -> Response:
        """Groups of shared subscriptions."""
        return await lists.answer("groups", query)

    @router.get("/addresses", response_model=Listed[AddressRow])
    async def list_addresses(query: Annotated[AddressesQuery, Query()]) -> Response:
        """Topics with a limit in bytes, and what waits for room in them."""
        return await lists.answer("addresses", query)

    @router.get("/retained", response_model=Listed[RetainedRow])
    async def list_retained(query: Annotated[RetainedQuery, Query()]) -> Response:
        """Retained messages."""
        return await lists.answer("retained", query)

    @router.get("/bridges", response_model=Listed[BridgeRow])
    async def list_bridges(query: Annotated[BridgesQuery, Query()]) -> Response:
        """Connections that the broker opens to other brokers."""
        return await lists.answer("bridges", query)

    return router
