"""FC-39: profiles of listeners in a running broker: which limits a session has when, and what stays that of all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.quotas.watermark import LARGE_LEN
from config import Config
from protocol.connect import Connect
from protocol.publish import Publish
from session.session import Session
from tests.broker.conftest import Start
from tests.support.broker.admin import listed
from tests.support.broker.events import wait_for_event
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.reloads import reload, rewrite
from tests.support.broker.stored import KEPT, broker_on, on_disk
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

INSIDE: dict[str, object] = {"max_inflight": 3, "max_mqueue_len": 10, "producer_max_rate": 5}
PROFILES: dict[str, Any] = {
    "listeners": [
        {"name": "outside", "bind": "127.0.0.1:0"},
        {"name": "inside", "bind": "127.0.0.1:0", "session": INSIDE},
    ],
    "session": {"max_inflight": 1, "max_mqueue_len": 2, "overflow_patience": 0},
}


def come(
    local: LocalBroker, listener: str, client_id: str = "c", kept: bool = True
) -> tuple[LocalClient, Session]:
    """A client at a listener, whose session is kept."""
    client = local.client()
    client.connection.listener = listener
    client.connect(client_id, clean_start=False, properties=KEPT if kept else None)
    return client, local.broker.clients.by_id[client_id].session


def sizes(session: Session) -> tuple[int, int, int]:
    """The window, and the limits of mqueue and rate."""
    return session.outbound.sender.window.limit, session.limits.max_mqueue_len, session.limits.producer_max_rate


@pytest.fixture
def local() -> Iterator[LocalBroker]:
    """A broker with a listener that has a profile."""
    with LocalBroker(**PROFILES) as broker:
        yield broker


def test_a_session_follows_its_client(local: LocalBroker) -> None:
    """FC-39: limits are of the listener where the client is, and stay until it comes back, through another one too."""
    for listener, expected in (("outside", (1, 2, 0)), ("inside", (3, 10, 5)), ("outside", (1, 2, 0))):
        client, session = come(local, listener)
        assert sizes(session) == expected
        client.drop()
        assert session.limits.max_mqueue_len == expected[1]


def test_limits_are_shared(local: LocalBroker) -> None:
    """FC-39: all sessions of a listener have one object; where there is no profile it is that of `session`."""
    _, one = come(local, "inside", "a")
    _, other = come(local, "inside", "b")
    _, outside = come(local, "outside", "d")
    assert one.limits is other.limits
    assert outside.limits is local.broker.settings.limits


def test_groups_have_those_of_session(local: LocalBroker) -> None:
    """FC-39, FC-13: the queue of a group is that of `session`, whoever its members are."""
    member, _ = come(local, "inside", "member")
    member.subscribe("$share/g/t", 1)
    member.drop()
    sender = local.client()
    sender.connect("sender")
    sender.send(*[Publish(b"t", b"%d" % number, 1, packet_id=number + 1) for number in range(6)])
    (queue,) = local.broker.router.shared.queues.values()
    assert queue.mqueue is not None
    assert queue.mqueue.length == 2


def test_byte_windows_of_a_listener_are_known_to_groups() -> None:
    """FC-39, FC-13: a member with a byte window gets the next message of a group that has room in it."""
    listeners = [{"name": "inside", "bind": "127.0.0.1:0", "session": {"consumer_window_size": 100}}]
    with LocalBroker(listeners=listeners) as local:
        assert local.broker.settings.limits.byte_windows
    with LocalBroker() as local:
        assert not local.broker.settings.limits.byte_windows


def test_a_quota_prevails() -> None:
    """FC-31, FC-39: a quota sets its limits at all listeners; what it does not set is that of the profile."""
    with LocalBroker(quotas=[{"max_mqueue_len": 7}], **PROFILES) as local:
        _, inside = come(local, "inside", "a")
        _, outside = come(local, "outside", "b")
        assert (sizes(inside), sizes(outside)) == ((3, 7, 5), (1, 7, 0))
        _, again = come(local, "inside", "d")
        assert again.limits is inside.limits


@pytest.mark.parametrize("quotas", [[], [{"max_inflight": 2}]])
def test_the_watermark_narrows_all(quotas: list[dict[str, int]]) -> None:
    """FC-32: above the watermark queues of all listeners are narrow, also those that begin now; then as before."""
    own = {"name": "inside", "bind": "127.0.0.1:0", "session": {"max_mqueue_len": 5_000}}
    with LocalBroker(quotas=quotas, listeners=[own]) as local:
        quotas_of_all = local.broker.quotas
        _, before = come(local, "inside", "a")
        quotas_of_all.watermark.reached = True
        quotas_of_all.narrow(True)
        _, after = come(local, "outside", "b", kept=False)
        assert [each.limits.max_mqueue_len for each in (before, after)] == [LARGE_LEN, LARGE_LEN]
        quotas_of_all.watermark.reached = False
        quotas_of_all.narrow(False)
        assert [each.limits.max_mqueue_len for each in (before, after)] == [5_000, 1_000]


@pytest.mark.parametrize("quotas", [[], [{"max_connections": 9}]])
@pytest.mark.parametrize("away", [False, True])
def test_a_reload_changes_a_profile(quotas: list[dict[str, int]], away: bool) -> None:
    """FC-39: a profile that changes, ends or begins applies to its sessions at once, as `session` does."""
    before = Config.model_validate({**PROFILES, "quotas": quotas})
    inside = before.listeners[1]
    with LocalBroker(**PROFILES, quotas=quotas) as local:
        client, session = come(local, "inside")
        if away:
            client.drop()
        lengths = []
        for own in ({"max_mqueue_len": 50}, None, {"max_mqueue_len": 60}, {}):
            listener = type(inside).model_validate({"name": "inside", "bind": inside.bind, "session": own})
            after = before.model_copy(update={"listeners": [before.listeners[0], listener]})
            local.complete(local.broker.use(after, before))
            lengths.append(session.limits.max_mqueue_len)
            before = after
        assert lengths == [50, 2, 60, 2]


def test_over_a_restart(tmp_path: Path) -> None:
    """FC-27, FC-39: a restored session has the limits of the listener that the journal names, if there is one still."""
    with broker_on(tmp_path, **PROFILES) as (local, storage):
        client = local.client()
        client.connection.listener = "inside"
        client.send(Connect("c", False, 0, properties=KEPT, version=5))
        on_disk(local, storage)
    for sections, length in ((PROFILES, 10), ({"session": PROFILES["session"]}, 2)):
        with broker_on(tmp_path, **sections) as (local, _):
            assert local.broker.clients.by_id["c"].session.limits.max_mqueue_len == length


def test_over_sockets(start: Start, tmp_path: Path) -> None:
    """FC-39: the window and the queue are those of the listener; a reload says which keys of a profile have changed."""
    sections = {**PROFILES, "admin": {"socket": "a.sock"}}
    broker = start(sections=sections)
    wait_for_event(broker, "admin_socket")
    with connected(broker.address("outside"), 5) as sender:
        for listener, window, queued in (("inside", 3, 10), ("outside", 1, 2)):
            with WireClient(broker.address(listener), 5) as reader:
                reader.connect(client_id=listener)
                reader.subscribe("t", qos=1)
                for _ in range(20):
                    sender.publish("t", b"x", 1)
                assert [reader.expect(Publish).packet_id for _ in range(window)] == list(range(1, window + 1))

                def is_full(name: str = listener, full: tuple[int, int] = (window, queued)) -> bool:
                    (row,) = listed(broker.folder / "a.sock", "sessions", f"client_id={name}")["items"]
                    return (row["window_len"], row["mqueue_len"]) == full

                wait_until(is_full, "its queue is full")
    listeners = [PROFILES["listeners"][0], {**PROFILES["listeners"][1], "session": {**INSIDE, "max_inflight": 4}}]
    rewrite(broker, listeners=listeners)
    answer = reload(broker).json
    assert (answer["changed"], answer["opened"], answer["restart"]) == (["listeners[1].session.max_inflight"], [], {})
    with WireClient(broker.address("inside"), 5) as reader:
        reader.connect(client_id="new")
        (row,) = listed(broker.folder / "a.sock", "sessions", "client_id=new")["items"]
        assert row["window_limit"] == 4
