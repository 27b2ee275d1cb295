"""FC-27: wills of clients that were connected when the broker failed come once, unless their clients are back."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.storage import records, spares
from broker.storage.compaction import Compaction
from broker.storage.reserve import Reserve
from broker.storage.storage import Storage
from protocol import properties as props
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.stored import KEPT, broker_on, on_disk, say

AFTER = 8.5
"""Seconds after the restart in which all wills have come."""
WILL = Will(b"will/away", b"gone", 1, False, None)


def join(
    local: LocalBroker,
    storage: Storage,
    client_id: str = "away",
    will: Will | None = WILL,
    properties: Properties | None = None,
    version: int = 5,
    **more: Any,
) -> LocalClient:
    """A client that connects, by a clean start unless its session is kept; with what is on disk before CONNACK."""
    client = local.client(version)
    packet = Connect(client_id, properties is None, 0, will=will, properties=properties, version=version, **more)
    assert isinstance(say(local, storage, client, packet)[0], Connack)
    return client


def watcher(local: LocalBroker) -> LocalClient:
    """A client without a kept session that gets all wills."""
    client = local.client()
    client.connect("watcher")
    client.subscribe("will/#", 1)
    return client


def came(local: LocalBroker, storage: Storage, client: LocalClient, seconds: float = AFTER) -> list[bytes]:
    """The payloads that have come after so many seconds more."""
    local.pass_time(seconds)
    on_disk(local, storage)
    local.pass_time(0)
    return [packet.payload for packet in client.received() if isinstance(packet, Publish)]


@pytest.mark.parametrize("properties", [None, KEPT])
@pytest.mark.parametrize("version", [4, 5])
def test_once_after_a_crash(tmp_path: Path, properties: Properties | None, version: int) -> None:
    """A will is published after the grace, once, also if the broker fails again before and after [MQTT-3.1.2-8]."""
    with broker_on(tmp_path) as (local, storage):
        join(local, storage, properties=properties if version == 5 else None, version=version)
    with broker_on(tmp_path) as (local, storage):
        assert came(local, storage, watcher(local), 4.9) == []
    with broker_on(tmp_path) as (local, storage):
        assert came(local, storage, watcher(local)) == [b"gone"]
    with broker_on(tmp_path) as (local, storage):
        assert came(local, storage, watcher(local)) == []


@pytest.mark.parametrize("before", [None, KEPT])
@pytest.mark.parametrize("after", [None, KEPT])
def test_a_client_that_is_back(tmp_path: Path, before: Properties | None, after: Properties | None) -> None:
    """A client that connects within the grace, by a clean start too, has no will published, also by the next start."""
    with broker_on(tmp_path) as (local, storage):
        join(local, storage, properties=before)
    with broker_on(tmp_path) as (local, storage):
        client = join(local, storage, will=None, properties=after)
        assert came(local, storage, watcher(local)) == []
        say(local, storage, client, Disconnect())
    with broker_on(tmp_path) as (local, storage):
        assert came(local, storage, watcher(local)) == []


def test_its_new_will_comes(tmp_path: Path) -> None:
    """A client that is back has the will of its new connection, and that comes when it ends."""
    with broker_on(tmp_path) as (local, storage):
        join(local, storage)
    with broker_on(tmp_path) as (local, storage):
        client = join(local, storage, will=Will(b"will/new", b"again", 1, False, None))
        watching = watcher(local)
        client.drop()
        assert came(local, storage, watching) == [b"again"]
    with broker_on(tmp_path) as (local, storage):
        assert came(local, storage, watcher(local)) == []


@pytest.mark.parametrize("ending", ["DISCONNECT", "lost", "taken over"])
def test_what_has_ended_before_the_crash(tmp_path: Path, ending: str) -> None:
    """A will that DISCONNECT has cancelled, or that has been published, does not come after a restart."""
    with broker_on(tmp_path) as (local, storage):
        client = join(local, storage)
        if ending == "DISCONNECT":
            say(local, storage, client, Disconnect())
        elif ending == "lost":
            client.drop()
        else:
            join(local, storage, will=None)
        on_disk(local, storage)
        assert not storage.journal.queues
    with broker_on(tmp_path) as (local, storage):
        assert came(local, storage, watcher(local)) == []


def test_delayed_wills_keep_their_time(tmp_path: Path) -> None:
    """A delayed will of a kept session comes when its delay is over; of a session that has expired after the grace."""
    delay: Properties = {props.WILL_DELAY_INTERVAL: 20}
    with broker_on(tmp_path) as (local, storage):
        join(local, storage, "late", Will(b"will/late", b"late", 1, False, delay), KEPT)
        join(local, storage, "soon", Will(b"will/soon", b"soon", 1, False, delay), {props.SESSION_EXPIRY_INTERVAL: 1})
    with broker_on(tmp_path) as (local, storage):
        watching = watcher(local)
        assert came(local, storage, watching) == [b"soon"]
        assert came(local, storage, watching, 12) == [b"late"]



def test_rules_of_now(tmp_path: Path) -> None:
    """A will that the rules do not permit any more is dropped, and logged."""
    with broker_on(tmp_path) as (local, storage):
        join(local, storage)
    rules = [{"permit": "deny", "action": "publish", "topics": ["will/#"]}, {"permit": "allow", "topics": ["#"]}]
    with capture_logs() as logs, broker_on(tmp_path, authorization={"rules": rules}) as (local, storage):
        assert came(local, storage, watcher(local)) == []
    assert [each["client_id"] for each in logs if each["event"] == "will_dropped"] == ["away"]


def test_retained_and_without_quality(tmp_path: Path) -> None:
    """A retained will of QoS 0 replaces what its client had retained, with its properties."""
    with broker_on(tmp_path) as (local, storage):
        will = Will(b"state", b"offline", 0, True, {props.USER_PROPERTY: [("a", "b")]})
        client = join(local, storage, will=will)
        say(local, storage, client, Publish(b"state", b"online", 0, True))
    with broker_on(tmp_path) as (local, storage):
        came(local, storage, watcher(local))
        retained = local.broker.retained.get(b"state")
        assert retained is not None
        assert (retained.payload, retained.client_id) == (b"offline", "away")
        assert retained.properties == {props.USER_PROPERTY: [("a", "b")]}


def test_compaction_keeps_them(tmp_path: Path) -> None:
    """When the frame that has a will is removed, the will is written again, with the owner of its client."""
    with broker_on(tmp_path) as (local, storage):
        join(local, storage)
        say(local, storage, local.client(), Connect("other", True, 0, version=5))
        for _ in range(3):
            local.run(lambda: storage.journal.write(records.ended(99)))
            on_disk(local, storage)
        first = next(iter(storage.journal.frames))
        local.complete(Compaction(storage).remove_oldest())
        assert first not in storage.journal.frames
    with broker_on(tmp_path) as (local, storage):
        assert came(local, storage, watcher(local)) == [b"gone"]


def test_many_are_spread(tmp_path: Path) -> None:
    """Wills of many clients do not come all at once, and each of them comes."""
    with broker_on(tmp_path) as (local, storage):
        for number in range(30):
            join(local, storage, f"away-{number}", Will(b"will/many", b"%d" % number, 1, False, None))
    with broker_on(tmp_path) as (local, storage):
        watching = watcher(local)
        found = [came(local, storage, watching, seconds) for seconds in (5.2, 1.5, 1.8)]
        assert all(0 < len(each) < 30 for each in found)
        assert sorted(each for part in found for each in part) == sorted(b"%d" % number for number in range(30))
        assert local.broker.sessions.on_back is None
        assert len(local.broker.clients) == 1


def test_a_full_journal(tmp_path: Path) -> None:
    """FC-29: without room a client whose session is not kept connects all the same; its will comes if it breaks off."""
    with broker_on(tmp_path) as (local, storage):
        commits = storage.journal.commits
        room, commits.reserve = commits.reserve, Reserve(lambda: 0, spares.SEGMENT)
        commits.reserve.look()
        client = join(local, storage)
        assert not storage.journal.queues
        commits.reserve = room
        watching = watcher(local)
        client.drop()
        assert came(local, storage, watching) == [b"gone"]
