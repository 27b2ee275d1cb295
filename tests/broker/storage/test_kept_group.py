"""The queue of a shared subscription on disk (FC-13, FC-27)."""

from pathlib import Path
from typing import Any

import pytest

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Connect
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from session.flows import PUBLISHER, flow_lane, flow_of
from session.mqueue import NEAR
from tests.support.broker.dropping import published
from tests.support.broker.stored import KEPT, all_read, broker_on, connected, on_disk, say, waiting


@pytest.mark.parametrize("qos", [1, 2])
def test_a_queue_that_is_full_hands_over_what_it_holds(tmp_path: Path, qos: int) -> None:
    """What a busy member is handed while others arrive is on disk as what it is, under its packet id."""
    limits = {"max_mqueue_len": 2, "overflow_patience": "0s"}
    with broker_on(tmp_path, session=limits) as (local, storage):
        member = connected(local, storage, "member", "t", "$share/g/t")
        publisher = connected(local, storage, "publisher")
        publisher.send(*[Publish(b"t", b"%d" % number, qos, packet_id=number + 1) for number in range(8)])
        for _ in range(2):
            on_disk(local, storage)
            local.run(lambda: None)
        got = [packet for packet in member.received() if isinstance(packet, Publish)]
        (saved,) = [each for each in storage.read().sessions.values() if each.client_id == "member"]
        deliveries = waiting(storage, saved)
        on_file = {packet_id: deliveries[number][0].payload for number, packet_id in saved.inflight.items()}
        assert on_file == {each.packet_id: each.payload for each in got}
        assert len(got) > 8


def test_a_group_without_members(tmp_path: Path) -> None:
    """A group that its last member has left is not in the journal any more; one of the same name is another."""
    with broker_on(tmp_path) as (local, storage):
        member = connected(local, storage, "member", "$share/g/t")
        say(local, storage, member, Unsubscribe(2, ["$share/g/t"]))
        on_disk(local, storage)
        assert [saved.group for saved in storage.read().sessions.values() if saved.group] == []
        say(local, storage, member, Subscribe(3, [Subscription("$share/g/t", 1)]))
        on_disk(local, storage)
        assert [saved.group for saved in storage.read().sessions.values() if saved.group] == ["$share/g/t"]


def test_qos_2_to_a_member_that_is_not_kept(tmp_path: Path) -> None:
    """A QoS 2 message is recorded as done for the group before it is sent [MQTT-4.8.2-5]."""
    with broker_on(tmp_path) as (local, storage):
        connected(local, storage, "kept", "$share/g/t").drop()
        member = local.client()
        join = Subscribe(1, [Subscription("$share/g/t", 2)])
        say(local, storage, member, Connect("member", True, 0, version=5), join)
        publisher = connected(local, storage, "publisher")
        for number in range(20):
            member.received()
            say(local, storage, publisher, Publish(b"t", b"", 2, packet_id=number + 1), Pubrel(number + 1))
            on_disk(local, storage)
            local.run(lambda: None)
            (publish,) = [packet for packet in member.received() if isinstance(packet, Publish)]
            (group,) = [each for each in storage.read().sessions.values() if each.group]
            assert group.deliveries.entries(0) == []
            say(local, storage, member, Pubrec(publish.packet_id), Pubcomp(publish.packet_id))
        assert all(not frame.messages for frame in storage.journal.frames.values())


def test_what_waited_before_there_were_keys(tmp_path: Path) -> None:
    """FC-33: what waited before `group_order: key` is one flow, of which one member at a time has some.

    What comes after it goes to members as it is published.
    """
    session: dict[str, Any] = {"max_inflight": 1}
    names = ("one", "two")
    with broker_on(tmp_path, session=session) as (local, storage):
        for name in names:
            connected(local, storage, name, "$share/g/t").drop()
        connected(local, storage, "publisher").send(*[Publish(b"t", b"%d" % n, 1, packet_id=n + 1) for n in range(3)])
        on_disk(local, storage)
    session |= {"mqueue_fairness": "publisher", "group_order": "key"}
    with broker_on(tmp_path, session=session) as (local, storage):
        publisher, other = connected(local, storage, "publisher"), connected(local, storage, "other")
        members = [local.client() for _ in names]
        for name, member in zip(names, members, strict=True):
            member.send(Connect(name, False, 0, properties=KEPT, version=5))
        for number in range(3):
            on_disk(local, storage)
            local.run(lambda: None)
            ((member, came),) = [(each, came) for each in members for came in published(each.received())]
            assert came.payload == b"%d" % number
            member.send(Puback(came.packet_id))
        for sender, number in ((publisher, 3), (publisher, 4), (other, 5)):
            sender.send(Publish(b"t", b"%d" % number, 1, packet_id=number))
        on_disk(local, storage)
        local.run(lambda: None)
        assert sorted(came.payload for each in members for came in published(each.received())) == [b"3", b"5"]


def test_what_is_open_is_read_back(tmp_path: Path) -> None:
    """FC-33, FC-30: a member gets what is open to it, also if it is on disk behind much that waits for another one."""
    session = {"mqueue_fairness": "publisher", "group_order": "key", "max_inflight": 100}
    names = sorted((f"p{n}" for n in range(NEAR + 5)), key=lambda name: flow_lane(flow_of(name, ""), PUBLISHER))
    with broker_on(tmp_path, 1, session=session) as (local, storage):
        connected(local, storage, "other", "$share/g/t").drop()
        holder = connected(local, storage, "holder", "$share/g/t")
        publishers = [connected(local, storage, name) for name in names]

        def publish() -> None:
            for name, publisher in zip(names, publishers, strict=True):
                publisher.send(Publish(b"t", name.encode(), 1, packet_id=1))
            on_disk(local, storage)
            local.run(lambda: None)

        publish()
        (last,) = [each for each in published(holder.received()) if each.payload == names[-1].encode()]
        holder.send(Puback(last.packet_id))
        holder.drop()
        publish()
    with broker_on(tmp_path, 1, session=session) as (local, storage):
        other = local.client()
        other.send(Connect("other", False, 0, properties=KEPT, version=5))
        for _ in range(20):  # how often the thread reads depends on the machine
            on_disk(local, storage)
            all_read(local, storage)
            local.run(lambda: None)
        assert [each.payload for each in published(other.received())] == [names[-1].encode()]
