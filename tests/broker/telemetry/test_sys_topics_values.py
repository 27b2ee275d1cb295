"""The topics under $SYS: what each number counts."""

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.ping import Pingreq
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from tests.support.broker.exporting import send
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.sys_topics import ADDRESSES, TOPICS, Values


def offline_subscriber(local: LocalBroker, topic_filter: str) -> None:
    """A session with a subscription, whose client has gone; it expires after ten seconds."""
    client = local.client()
    client.connect("away", properties={props.SESSION_EXPIRY_INTERVAL: 10})
    client.subscribe(topic_filter, 1)
    client.drop()


def test_clients() -> None:
    """The topics of clients count connected, offline and expired sessions, and the most sessions at once."""
    with LocalBroker() as local:
        values = Values(local)
        names = [f"clients/{name}" for name in ("total", "connected", "disconnected", "maximum", "expired")]
        assert values.now(*names) == ["0", "0", "0", "0", "0"]
        kept, other = local.client(), local.client()
        kept.connect("kept", properties={props.SESSION_EXPIRY_INTERVAL: 10})
        other.connect("other")
        assert values.now(*names) == ["2", "2", "0", "2", "0"]
        kept.drop()
        assert values.now(*names, "clients/active", "clients/inactive") == ["2", "1", "1", "2", "0", "1", "1"]
        local.pass_time(12)
        assert values.now(*names) == ["1", "1", "0", "2", "1"]
        other.send(Disconnect())
        assert values.now(*names) == ["0", "0", "0", "2", "1"]


def test_subscriptions_and_what_is_held() -> None:
    """The topics count subscriptions, shared ones, retained messages, and deliveries that wait or are in the window."""
    with LocalBroker() as local:
        values = Values(local)
        names = ["subscriptions/count", "shared_subscriptions/count", "messages/inflight", "messages/stored"]
        ours = values.retained()
        assert ours == len(TOPICS)
        client = local.client()
        client.connect("client")
        for topic_filter in ("a", "b/+", "$share/group/c"):
            client.subscribe(topic_filter, 1)
        offline_subscriber(local, "a")
        assert values.now(*names) == ["3", "1", "0", str(ours)]
        client.send(Publish(b"a", b"x", 1, packet_id=1), Publish(b"c", b"x", 1, retain=True, packet_id=2))
        assert values.now(*names, "retained messages/count") == ["3", "1", "2", str(ours + 4), str(ours + 1)]
        client.send(Puback(1), Puback(2), Unsubscribe(3, ["b/+", "$share/group/c"]))
        assert values.now(*names) == ["2", "0", "0", str(ours + 2)]


def every_exchange(client: LocalClient) -> tuple[int, int]:
    """Send at least one of each packet that a client sends; returns how many were sent, and how many came back."""
    sent = [
        Connect("client", version=5),
        Subscribe(1, [Subscription("t", 2)]),
        *[Publish(b"t", b"four", qos, packet_id=qos) for qos in range(3)],
        *[Pingreq(), Pubrel(2)],
        *[Puback(1), Pubrec(2), Pubcomp(2)],
        *[Publish(b"nobody", b"is there", 2, packet_id=9), Publish(b"nobody", b"is there", 2, packet_id=9), Pubrel(9)],
        *[Pubrec(77), Pubrel(77), Unsubscribe(2, ["t"])],
        Disconnect(),
    ]
    came_back = 0
    for packet in sent:
        client.send(packet)
        came_back += len(client.received())
    assert client.gone
    return len(sent), came_back


def test_packets_and_messages() -> None:
    """The topics count packets, PUBLISHes and payload bytes in both directions."""
    with LocalBroker() as local:
        values = Values(local)
        sent, came_back = every_exchange(local.client())
        assert values.now("messages/received", "messages/sent") == [str(sent), str(came_back)]
        assert values.now("publish/messages/received", "publish/messages/sent") == ["4", "3"]
        assert values.now("publish/bytes/received", "publish/bytes/sent") == ["20", "12"]
        assert values.now("load/connections/1min") == values.now("load/sockets/1min")


def test_bytes() -> None:
    """The topics count bytes as the broker reads and writes them."""
    with LocalBroker() as local:
        values = Values(local)
        client, read, written = local.client(), 0, 0
        packets = [Connect("c", version=5), Subscribe(1, [Subscription("t", 1)]), *[Publish(b"t", bytes(9999))] * 3]
        for data in [*[packet.encode(5) for packet in packets], b"\xc0", b"\xff"]:  # at last a PINGREQ that goes wrong
            client.send(data)
            read += len(data)
            written += client.transport.get_write_buffer_size()
            client.received()
        client.send(b"\xff\xff\xff")
        written += client.transport.get_write_buffer_size()
        assert isinstance(client.expect(Disconnect), Disconnect)
        assert values.now("bytes/received", "bytes/sent") == [str(read + 3), str(written)]


def test_dropped() -> None:
    """The topics count what full queues have dropped, also after the session has expired."""
    with LocalBroker(session={"max_mqueue_len": 3}) as local:
        values = Values(local)
        offline_subscriber(local, "t")
        sender = local.client()
        sender.connect("sender")
        for _ in range(5):
            send(sender, "t", 0)
        assert values.now("publish/messages/dropped") == ["2"]
        local.pass_time(12)
        assert values.now("publish/messages/dropped", "clients/total") == ["2", "1"]


def test_what_groups_hold() -> None:
    """FC-13: the topics count what waits in a shared queue as stored until the group has ended."""
    with LocalBroker() as local:
        values = Values(local)
        ours = values.retained()
        offline_subscriber(local, "$share/group/t")
        sender = local.client()
        sender.connect("sender")
        for _ in range(3):
            send(sender, "t", 1)
        assert values.now("messages/stored", "store/messages/count") == [str(ours + 3)] * 2
        local.pass_time(12)
        assert values.now("messages/stored") == [str(ours)]


def test_slow_consumers_and_stalled_windows() -> None:
    """FC-14: the topics count reports of slow consumers and stalled windows, and no other reports."""
    with LocalBroker() as local:
        values = Values(local)
        assert values.now("slow_consumers/total", "stalled_windows/total") == ["0", "0"]
        client = local.client()
        client.connect("client")
        for event in ("slow_consumer", "stalled_window", "stalled_window", "mqueue_full"):
            client.connection.report(event)
        assert values.now("slow_consumers/total", "stalled_windows/total") == ["1", "2"]


def test_parked_for_packet_ids() -> None:
    """FC-22: the topics count PUBLISHes parked because of max_awaiting_rel, also those of sessions that have ended."""
    with LocalBroker(session={"max_awaiting_rel": 1}) as local:
        values = Values(local)
        assert values.now("awaiting_rel/parked") == ["0"]
        for _ in range(2):
            client = local.client()
            client.connect("client")
            client.send(*[Publish(b"t", b"x", 2, packet_id=packet_id) for packet_id in (1, 2, 3)])
            client.drop()
        assert values.now("awaiting_rel/parked") == ["4"]


def test_addresses() -> None:
    """FC-24 to FC-26: the topics count full addresses and what each policy did with PUBLISHes to them."""
    policies = ("block", "drop", "fail")
    rules = [{"match": f"{policy}/#", "max_size_bytes": 1, "full_policy": policy} for policy in policies]
    with LocalBroker(addresses=rules) as local:
        values = Values(local, addresses=True)
        assert values.now(*ADDRESSES) == ["0"] * 5
        client, sender = local.client(), local.client()
        client.connect("client", properties={props.RECEIVE_MAXIMUM: 3})
        client.subscribe("#", 1)
        sender.connect("sender")
        for policy in policies:
            send(sender, f"{policy}/a", 1)
        for packet_id, policy in enumerate(("block", "drop", "drop", "fail", "fail", "fail"), 2):
            sender.send(Publish(f"{policy}/a".encode(), b"x", 1, packet_id=packet_id))
        assert values.now(*ADDRESSES) == ["3", "1", "0", "3", "2"]
        client.drop()
        local.pass_time(3)
        assert values.now(*ADDRESSES) == ["0", "1", "0", "3", "2"]
