"""FC-27: which packets wait for a commit."""

from typing import Any, TypeVar

import pytest

from broker.storage import records
from broker.storage.commits import LAZY
from broker.storage.journal import Journal
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from tests.support.broker.journaled import SlowDisk
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.waiting import until

P = TypeVar("P", bound=Packet)

KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 3600}


@pytest.fixture
def disk() -> SlowDisk:
    """A disk that waits."""
    return SlowDisk()


def connect(local: LocalBroker, disk: SlowDisk, client_id: str) -> LocalClient:
    """A client with a kept session that is on disk."""
    client = local.client()
    client.send(Connect(client_id, True, 0, properties=KEPT, version=5))
    assert client.received() == []  # CONNACK waits
    commit(local, disk)
    client.expect(Connack)
    return client


def commit(local: LocalBroker, disk: SlowDisk, frames: int = 1) -> None:
    """Let so many frames be put on disk, and the loop notice it."""
    before = len(disk.frames)
    disk.allow(frames)
    local.complete(until(lambda: len(disk.frames) == before + frames))
    local.complete(until(lambda: local.journal is not None and local.journal.commits.committed == len(disk.frames)))


def after_commits(local: LocalBroker, disk: SlowDisk, client: LocalClient, kind: type[P]) -> P:
    """The one packet that comes when the disk has done its work; it must not be there before."""
    assert client.received() == []
    while not (came := client.received()):
        local.complete(until(lambda: disk.waiting > 0))
        commit(local, disk)
        local.run(lambda: None)
    (packet,) = came
    assert isinstance(packet, kind)
    return packet


def journal_of(local: LocalBroker) -> Journal:
    """The journal of a broker that has one."""
    assert local.journal is not None
    return local.journal


def fill(local: LocalBroker) -> None:
    """Let the journal have no room for messages."""
    journal_of(local).commits.max_bytes = 1


def empty(local: LocalBroker) -> None:
    """Let it have room again."""
    journal_of(local).commits.max_bytes = 0


def test_what_is_acknowledged_is_on_disk(disk: SlowDisk) -> None:
    """CONNACK, SUBACK, PUBACK, PUBREC, a PUBLISH of QoS 2, PUBREL and PUBCOMP wait for their commit."""
    with LocalBroker(journal=disk.journal()) as local:
        subscriber, publisher = connect(local, disk, "subscriber"), connect(local, disk, "publisher")
        subscriber.send(Subscribe(1, [Subscription("t", 2)]))
        after_commits(local, disk, subscriber, Suback)

        publisher.send(Publish(b"t", b"one", 1, packet_id=1))
        subscriber.expect(Publish)  # QoS 1 need not wait: at the worst it comes again
        after_commits(local, disk, publisher, Puback)
        subscriber.send(Puback(1))

        publisher.send(Publish(b"t", b"two", 2, packet_id=2))
        two = after_commits(local, disk, subscriber, Publish)
        publisher.expect(Pubrec)

        subscriber.send(Pubrec(two.packet_id))
        after_commits(local, disk, subscriber, Pubrel)

        publisher.send(Pubrel(2))
        after_commits(local, disk, publisher, Pubcomp)


def test_order(disk: SlowDisk) -> None:
    """Packets behind an acknowledgement that waits for a commit wait too."""
    with LocalBroker(journal=disk.journal()) as local:
        client = connect(local, disk, "client")
        client.send(Subscribe(1, [Subscription("t", 1)]), Publish(b"t", b"", 1, packet_id=1), Pingreq())
        assert client.received() == []
        commit(local, disk)
        assert [type(packet) for packet in client.received()] == [Suback, Puback, Pingresp, Publish]


def test_who_does_not_need_the_disk(disk: SlowDisk) -> None:
    """Without kept sessions no packet waits for a commit, and nothing is written."""
    with LocalBroker(journal=disk.journal()) as local:
        client = local.client()
        client.connect("client")
        client.subscribe("t", 2)
        client.send(Publish(b"t", b"", 2, packet_id=1))
        assert {type(packet) for packet in client.received()} == {Pubrec, Publish}
        assert disk.frames == []
        assert disk.waiting == 0


def test_qos_2_of_a_group(disk: SlowDisk) -> None:
    """[MQTT-4.8.2-5]: a member whose session is not kept gets QoS 2 when it is on disk that no other member may."""
    with LocalBroker(journal=disk.journal()) as local:
        kept = connect(local, disk, "kept")
        kept.send(Subscribe(1, [Subscription("$share/g/t", 2)]))
        after_commits(local, disk, kept, Suback)
        kept.drop()
        member, publisher = local.client(), local.client()
        member.connect("member")
        member.subscribe("$share/g/t", 2)
        publisher.connect("publisher")
        publisher.send(Publish(b"t", b"x", 2, packet_id=1))
        assert after_commits(local, disk, member, Publish).payload == b"x"


def test_full(disk: SlowDisk) -> None:
    """While the disk is full, a PUBLISH is refused with 0x97, and queued messages are still delivered."""
    with LocalBroker(journal=disk.journal()) as local:
        subscriber, publisher = connect(local, disk, "subscriber"), connect(local, disk, "publisher")
        subscriber.send(Subscribe(1, [Subscription("t", 1)]))
        commit(local, disk)
        subscriber.expect(Suback)
        disk.has_room = False
        publisher.send(Publish(b"t", b"waits", 1, packet_id=1))
        disk.allow()
        local.complete(until(lambda: local.journal is not None and local.journal.commits.full))
        publisher.send(Publish(b"t", b"refused", 1, packet_id=2))
        assert subscriber.expect(Publish).payload == b"waits"
        disk.has_room = True
        commit(local, disk)
        assert [packet.reason_code for packet in publisher.received() if isinstance(packet, Puback)] == [0, 0x97]


def test_full_for_an_old_client(disk: SlowDisk) -> None:
    """FC-29: while the disk is full, a PUBLISH closes the connection of a 3.1.1 client, which sends it again later."""
    with LocalBroker(journal=disk.journal()) as local:
        publisher, old = connect(local, disk, "publisher"), local.client(4)
        old.connect("old")
        publisher.send(Subscribe(1, [Subscription("t", 1)]))
        commit(local, disk)
        disk.has_room = False
        publisher.send(Publish(b"t", b"waits", 1, packet_id=1))
        disk.allow()
        local.complete(until(lambda: local.journal is not None and local.journal.commits.full))
        old.send(Publish(b"t", b"refused", 1, packet_id=1))
        assert old.received() == []
        assert old.gone
        disk.has_room = True
        commit(local, disk)


def test_a_subscription_without_room(disk: SlowDisk) -> None:
    """FC-29: without room a kept session gets 0x97 for what is new and changes nothing; it may end subscriptions."""
    with LocalBroker(journal=disk.journal()) as local:
        client = connect(local, disk, "client")
        client.send(Subscribe(1, [Subscription("old", 1), Subscription("other", 1)]))
        after_commits(local, disk, client, Suback)
        fill(local)
        client.send(Subscribe(2, [Subscription("new", 1), Subscription("old", 1), Subscription("other", 2)]))
        assert client.expect(Suback).reason_codes == [0x97, 1, 0x97]
        assert not journal_of(local).commits.waits()
        client.send(Publish(b"new", b"", 0), Publish(b"other", b"", 0))
        assert client.expect(Publish).topic == b"other"
        client.send(Unsubscribe(3, ["other"]))
        assert after_commits(local, disk, client, Unsuback).reason_codes == [0]
        empty(local)
        client.send(Subscribe(4, [Subscription("new", 1)]))
        assert after_commits(local, disk, client, Suback).reason_codes == [1]


def test_a_subscription_of_an_old_client_without_room(disk: SlowDisk) -> None:
    """FC-29: without room a kept session of MQTT 3.1.1 gets 0x80 for a new subscription."""
    with LocalBroker(journal=disk.journal()) as local:
        client = local.client(4)
        client.send(Connect("old", False, 0, version=4))
        after_commits(local, disk, client, Connack)
        fill(local)
        client.send(Subscribe(1, [Subscription("new", 1)]))
        assert client.expect(Suback).reason_codes == [0x80]


def test_sessions_without_room(disk: SlowDisk) -> None:
    """FC-29: without room no new session is kept; one that is there is resumed and may end, others are not affected."""
    with LocalBroker(journal=disk.journal()) as local:
        connect(local, disk, "kept").drop()
        fill(local)
        for client_id, clean_start in (("new", False), ("kept", True)):
            client = local.client()
            client.send(Connect(client_id, clean_start, 0, properties=KEPT, version=5))
            assert client.expect(Connack).reason_code == 0x97
            assert client.gone
        old = local.client(4)
        old.send(Connect("old", False, 0, version=4))
        assert old.expect(Connack).reason_code == 3
        passing = local.client()
        assert passing.connect("passing").reason_code == 0
        passing.subscribe("t", 1)
        kept = local.client()
        kept.send(Connect("kept", False, 0, properties=KEPT, version=5))
        assert after_commits(local, disk, kept, Connack).session_present
        kept.drop()
        ended = local.client()
        ended.send(Connect("kept", True, 0, version=5))
        assert not after_commits(local, disk, ended, Connack).session_present


def test_a_subscription_again(disk: SlowDisk) -> None:
    """A subscription that changes nothing is not written again, so its SUBACK does not wait for the disk."""
    with LocalBroker(journal=disk.journal()) as local:
        client = connect(local, disk, "client")
        client.send(Subscribe(1, [Subscription("t", 1)]))
        after_commits(local, disk, client, Suback)
        client.send(Subscribe(2, [Subscription("t", 1)]))
        assert client.expect(Suback).reason_codes == [1]
        client.send(Subscribe(3, [Subscription("t", 2), Subscription("t", 2)]))
        assert after_commits(local, disk, client, Suback).reason_codes == [2, 2]


def test_a_will_that_is_cancelled(disk: SlowDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """DISCONNECT cancels a will with a commit that begins at once: after a crash before it the will is published."""
    with LocalBroker(journal=disk.journal()) as local:
        client = local.client()
        client.send(Connect("polite", True, 0, will=Will(b"w", b"x", 1, False), properties=KEPT, version=5))
        commit(local, disk)
        client.expect(Connack)
        loop = local.loop
        later = loop.call_later

        def call_later(delay: float, *arguments: Any) -> Any:
            return later(1000 if delay == LAZY else delay, *arguments)

        monkeypatch.setattr(loop, "call_later", call_later)
        client.send(Disconnect())
        commit(local, disk)
        ((kind, body),) = records.each(disk.frames[-1], 0)
        assert kind == records.DETACHED
        assert not records.read_detached(body)[3]


def behind(local: LocalBroker, disk: SlowDisk) -> tuple[LocalClient, LocalClient]:
    """A kept session that subscribes to `t`, and a publisher; more than 1,000 bytes would be too much."""
    assert local.journal is not None
    local.journal.commits.most_waiting = 1_000
    subscriber, publisher = connect(local, disk, "subscriber"), connect(local, disk, "publisher")
    subscriber.send(Subscribe(1, [Subscription("t", 1)]))
    commit(local, disk)
    return subscriber, publisher


def test_who_adds_is_paused(disk: SlowDisk) -> None:
    """When too much waits for the disk, those who add to it are not read, others are: QoS 0 does not wait (FC-27)."""
    with LocalBroker(journal=disk.journal()) as local:
        _, publisher = behind(local, disk)
        other, live = local.client(), local.client()
        other.connect("other")
        live.connect("live")
        live.subscribe("live")
        publisher.send(Publish(b"t", b"the commit that runs", 1, packet_id=1))
        publisher.send(Publish(b"t", bytes(2_000), 1, packet_id=2))
        assert not publisher.transport.reading
        for _ in range(3):
            other.send(Publish(b"live", b"at once", 0))
            live.expect(Publish)
        assert other.transport.reading
        other.send(Publish(b"t", b"", 1, packet_id=1))
        assert not other.transport.reading
        commit(local, disk)
        local.run(lambda: None)
        assert publisher.transport.reading
        assert other.transport.reading
        commit(local, disk, 2)
        assert [type(packet) for packet in publisher.received()] == [Puback, Puback]


def test_a_duration_pauses_nobody_for_long(disk: SlowDisk) -> None:
    """FC-28: with a duration a publisher is not paused until the next interval: the disk is given what waits."""
    with LocalBroker(journal=disk.journal(sync=3600)) as local:
        assert local.journal is not None
        local.journal.commits.most_waiting = 1_000
        subscriber, publisher = local.client(), local.client()
        subscriber.connect("subscriber", properties=KEPT)
        publisher.connect("publisher")
        subscriber.subscribe("t", 1)
        publisher.send(Publish(b"t", bytes(2_000), 1, packet_id=1))
        publisher.expect(Puback)
        assert publisher.transport.reading
        publisher.send(Publish(b"t", bytes(2_000), 1, packet_id=2))
        publisher.expect(Puback)
        assert not publisher.transport.reading  # now the disk is slower than the publisher
        disk.allow(2)
        local.complete(until(lambda: publisher.transport.reading))
        local.complete(until(lambda: sum(map(len, disk.frames)) > 4_000))


def test_a_frame_of_many_publishers(disk: SlowDisk) -> None:
    """However many publishers add a message before they are paused, no frame has more than one beyond the limit."""
    with LocalBroker(journal=disk.journal()) as local:
        behind(local, disk)
        publishers = [local.client() for _ in range(20)]
        for number, each in enumerate(publishers):
            each.connect(f"publisher {number}")
        publishers[0].send(Publish(b"t", b"the commit that runs", 1, packet_id=1))
        for each in publishers:
            each.send(Publish(b"t", bytes(900), 1, packet_id=2))
        disk.allow(2)
        local.complete(until(lambda: all(each.transport.written for each in publishers)))
        assert [len(each.received()) for each in publishers] == [2] + [1] * 19
        assert max(map(len, disk.frames)) < 2_000
