"""The lists of the admin API: what they may be asked, paging over HTTP, and wrong requests."""

from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import pytest

from broker.admin.addresses import AddressListing
from broker.admin.api.lists import QUERIES
from broker.admin.bridges import BridgeListing
from broker.admin.clients import ClientListing
from broker.admin.groups import GroupListing
from broker.admin.listing import Listing
from broker.admin.retained import RetainedListing
from broker.admin.sessions import SessionListing
from broker.admin.subscriptions import SubscriptionListing
from protocol.connack import Connack
from protocol.connect import Connect
from tests.broker.conftest import Start
from tests.support.broker.admin import listed, request
from tests.support.broker.events import wait_for_event
from tests.support.broker.logins import PASSWORDS, sections, write_users
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

LISTINGS: dict[str, type[Listing[Any]]] = {
    "clients": ClientListing,
    "sessions": SessionListing,
    "subscriptions": SubscriptionListing,
    "groups": GroupListing,
    "addresses": AddressListing,
    "retained": RetainedListing,
    "bridges": BridgeListing,
}


@pytest.mark.parametrize("what", list(QUERIES))
def test_the_schema_has_all_keys_and_filters(what: str) -> None:
    """What can be asked is what the list can do: its sort keys, the default first, and its filters."""
    fields = QUERIES[what].model_fields
    listing = LISTINGS[what]
    sorts = get_args(fields["sort"].annotation)
    assert (set(sorts), sorts[0]) == ({*listing.keys, "name"}, listing.default)
    assert set(fields) - {"sort", "limit", "after", "places"} == set(listing.filters)


def test_paging(broker: BrokerProcess, path: Path) -> None:
    """`next` leads through all pages, and each item is on one of them, whatever its name is, and however long."""
    names = ["a", "A/b c", '"],"\\', "ä漢", "\u2028", "x" * 300, "%00", "z", "漢" * 300]
    clients = [connected(broker.address(), 5, client_id=name) for name in names]
    seen: list[str] = []
    after = ""
    while True:
        page = listed(path, "clients", f"sort=name&limit=1{after}")
        seen += [item["client_id"] for item in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={quote(page['next'])}"
    assert seen == sorted(name if len(name) <= 256 else name[:255] + "…" for name in names)
    for client in clients:
        client.close()
    wait_until(lambda: listed(path, "clients")["total"] == 0, "they have gone")


def test_sessions_of_a_user(start: Start, tmp_path: Path) -> None:
    """The sessions of a user are found and can be ended also when the user has been removed."""
    users = write_users(tmp_path / "users")
    own = sections(users, admin={"socket": "a.sock"})
    broker = start(sections=own)
    wait_for_event(broker, "admin_socket")
    socket = tmp_path / "a.sock"
    for user, client_id in (("ann", "kept"), ("ben", "other")):
        with WireClient(broker.address(), 4) as client:
            client.send(Connect(client_id, False, username=user, password=PASSWORDS[user].encode()))
            assert client.expect(Connack).reason_code == 0
    write_users(users, {"ben": PASSWORDS["ben"]})
    wait_for_event(broker, "file_read")
    found = listed(socket, "sessions", "user=ann")
    assert [item["client_id"] for item in found["items"]] == ["kept"]
    assert request(socket, "/api/v1/sessions/kept", "DELETE").status == 200
    assert listed(socket, "sessions", "user=ann")["items"] == []


def test_clients(broker: BrokerProcess, path: Path) -> None:
    """A connected client is listed with its address, listener and subscriptions, and those can be listed too."""
    with connected(broker.address(), 5, client_id="one") as client:
        client.subscribe("a/+", "$share/g/b", qos=1)
        (found,) = listed(path, "clients", "client_id=one")["items"]
        assert found["peer"].startswith("127.0.0.1:")
        assert [found[key] for key in ("user", "listener", "protocol_version", "subscriptions", "will")] == [
            None,
            "tcp",
            5,
            2,
            False,
        ]
        filters = [item["topic_filter"] for item in listed(path, "subscriptions", "client_id=one")["items"]]
        assert filters == ["$share/g/b", "a/+"]
        (shared,) = listed(path, "subscriptions", "shared=true")["items"]
        assert (shared["topic_filter"], shared["qos"]) == ("$share/g/b", 1)


def test_retained(broker: BrokerProcess, path: Path) -> None:
    """A retained message is listed with its size, the beginning of its payload and its publisher."""
    with connected(broker.address(), 5, client_id="sender") as client:
        client.publish("kept", b"hello", 1, retain=True)
        (found,) = listed(path, "retained", "sys=false")["items"]
        client.publish("kept", b"", 1, retain=True)
    assert found == {"topic": "kept", "qos": 1, "size_bytes": 5, "payload": "aGVsbG8=", "publisher": "sender"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("sort=size", "sort: write mqueue, name"),
        ("limit=0", "limit: write at least 1"),
        ("limit=1001", "limit: write at most 1000"),
        ("limit=many", "limit: write a whole number"),
        ("after=x", "after: write the `next` of the page before"),
        ("after=WzEsMl0=", "after: write the `next` of the page before"),
        ("order=1", "order: is unknown: leave it out"),
        ("connected=perhaps", "connected: write true or false"),
    ],
)
def test_wrong_query(path: Path, query: str, message: str) -> None:
    """A query that cannot be answered gets 422, with the parameter and what would be right."""
    answer = request(path, f"/api/v1/sessions?{query}")
    assert (answer.status, message in answer.json["detail"]) == (422, True)


def test_the_schema(path: Path) -> None:
    """The OpenAPI document has every endpoint, and what its answer holds."""
    document = request(path, "/api/v1/openapi.json").json
    for what in QUERIES:
        answer = document["paths"][f"/api/v1/{what}"]["get"]["responses"]["200"]
        assert answer["content"]["application/json"]["schema"]["$ref"].startswith("#/components/schemas/Listed_")
