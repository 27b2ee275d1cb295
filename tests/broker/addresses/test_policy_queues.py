"""FC-34: `mqueue_overflow: reject` and `block` tell publishers before the queue of a subscriber overflows."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from protocol import properties as props
from protocol.connect import Connect
from protocol.publish import Publish
from tests.support.broker.full import (
    acknowledge,
    answered,
    answers,
    drain,
    local_broker,
    number_of,
    numbers,
    parked,
    publisher,
    send,
    session,
)
from tests.support.broker.full import fill as fill_address
from tests.support.broker.full import subscriber as plain_subscriber
from tests.support.broker.local import LocalBroker, LocalClient

TOPIC = "queue/a"
QUOTA_EXCEEDED = 0x97
WINDOW = 2
QUEUE = 3
HELD = list(range(1, WINDOW + QUEUE + 1))
"""The messages that window and queue of a subscriber hold."""


def broker(policy: str, **session: object) -> LocalBroker:
    """A broker whose sessions hold five messages each."""
    own: dict[str, object] = {
        "max_inflight": WINDOW,
        "max_mqueue_len": QUEUE,
        "mqueue_overflow": policy,
        "retry_interval": "infinity",
    }
    return LocalBroker(session=own | session)


def subscriber(local: LocalBroker, qos: int = 1, topic_filter: str = TOPIC) -> LocalClient:
    """A client that acknowledges nothing by itself."""
    return plain_subscriber(local, qos, 5, topic_filter)


def kept(local: LocalBroker, client_id: str) -> LocalClient:
    """A client whose session outlives its connection."""
    client = local.client(5)
    client.send(Connect(client_id, False, properties={props.SESSION_EXPIRY_INTERVAL: 1000}, version=5))
    return client


def publish(client: LocalClient, wanted: list[int], qos: int = 1, **options: Any) -> None:
    """Publish numbered messages."""
    send(client, wanted, qos, topic=options.pop("topic", TOPIC), **options)


def fill(local: LocalBroker, sender: LocalClient) -> None:
    """Publish what the subscribers hold."""
    publish(sender, HELD)
    assert answered(sender) == HELD


@pytest.mark.parametrize("qos", [1, 2])
def test_reject_tells_the_publisher(qos: int) -> None:
    """FC-34: with `reject` a PUBLISH to a full queue is answered with 0x97, and nothing else is lost."""
    with broker("reject") as local:
        reader = subscriber(local, 2)
        sender = publisher(local)
        fill(local, sender)
        publish(sender, [6, 7], qos)
        assert answers(sender.received()) == [(6, QUOTA_EXCEEDED), (7, QUOTA_EXCEEDED)]
        assert session(local).counters.column("publish_refused") == 2
        assert drain(reader) == [HELD]
        publish(sender, [8], 0)
        assert drain(reader) == [[8]]


def test_nobody_gets_what_is_refused() -> None:
    """FC-34: a PUBLISH goes to all receivers or to none, so one that is repeated doubles nothing."""
    with broker("reject") as local:
        free = subscriber(local, 1, "queue/#")
        full = subscriber(local)
        sender = publisher(local)
        fill(local, sender)
        got = drain(free)[0]
        publish(sender, [6])
        assert answers(sender.received()) == [(6, QUOTA_EXCEEDED)]
        assert drain(free) == [[]]
        drain(full)
        publish(sender, [6])
        assert answered(sender) == [6]
        assert got + drain(free)[0] == [*HELD, 6]


def test_block_withholds_the_acknowledgement() -> None:
    """FC-34: with `block` a PUBLISH waits until the queue has room, is then acknowledged, and comes in order."""
    with broker("block") as local:
        reader = subscriber(local)
        sender = publisher(local)
        publish(sender, [*HELD, 6, 7, 8])
        assert answered(sender) == HELD
        assert len(parked(local)) == 3
        first = reader.received()
        acknowledge(reader, first)
        assert numbers(first) == [1, 2]
        assert answered(sender) == [6, 7]
        assert numbers(first) + drain(reader)[0] == [*HELD, 6, 7, 8]
        assert answered(sender) == [8]


@pytest.mark.parametrize(("policy", "version"), [("block", 5), ("block", 4), ("reject", 4)])
def test_nobody_waits_past_the_timeout(policy: str, version: int) -> None:
    """FC-34: after `overflow_timeout` a PUBLISH that waits is refused; a 3.1.1 connection is closed for it."""
    with broker(policy, overflow_timeout="3s") as local:
        subscriber(local)
        sender = publisher(local, version)
        fill(local, sender)
        publish(sender, [6])
        local.pass_time(2.9)
        assert answers(sender.received()) == []
        local.pass_time(0.2)
        assert answers(sender.received()) == ([(6, QUOTA_EXCEEDED)] if version == 5 else [])
        assert sender.gone is (version == 4)


def test_an_absent_client_stops_nobody_by_default() -> None:
    """FC-34: a client that is away stops nobody, unless there is a grace: its queue drops the oldest."""
    with broker("block") as local:
        reader = kept(local, "away")
        reader.received()
        reader.subscribe(TOPIC, 1)
        sender = publisher(local)
        reader.drop()
        publish(sender, [1, 2, 3, 4, 5])
        assert answered(sender) == [1, 2, 3, 4, 5]
        assert drain(kept(local, "away")) == [[3, 4, 5]]


def test_qos0_is_dropped() -> None:
    """FC-34: QoS 0 waits for nobody; it is dropped, and nothing that was acknowledged goes for it."""
    with broker("block", overflow_patience=0) as local:
        reader = subscriber(local)
        sender = publisher(local)
        fill(local, sender)
        publish(sender, [6], 0)
        publish(sender, [7])
        assert answered(sender) == []
        assert drain(reader) == [[*HELD, 7]]


def test_a_topic_keeps_its_order() -> None:
    """FC-9, FC-34: PUBLISHes of a topic wait in the order of their arrival, whoever has no room for them."""
    with broker("block") as local:
        one, other = subscriber(local), subscriber(local, 1, "queue/#")
        sender, second = publisher(local), publisher(local, 5, "second")
        fill(local, sender)
        publish(sender, [6])
        publish(second, [7])
        publish(sender, [8])
        got = drain(one, other)
        assert got == [[*HELD, 6, 7, 8]] * 2
        assert (answered(sender), answered(second)) == ([6, 8], [7])


def test_other_topics_go_on() -> None:
    """FC-34: only who publishes to the full queue waits; each topic that waits has its turn."""
    with broker("block") as local:
        reader = subscriber(local, 1, "queue/#")
        subscriber(local, 1, "free")
        sender, second = publisher(local), publisher(local, 5, "second")
        fill(local, sender)
        publish(sender, [10, 11, 12], topic="queue/a")
        publish(second, [20, 21, 22], topic="queue/b")
        publish(sender, [30], topic="free")
        assert answered(sender) == [30]
        acknowledge(reader, reader.received())
        assert answered(sender) + answered(second) == [10, 20]


def test_who_waits_for_another_queue_is_out_of_turn() -> None:
    """FC-34: once a topic waits for another queue, the next one has its turn at the first."""
    with broker("block") as local:
        both, one = subscriber(local, 1, "queue/#"), subscriber(local)
        sender, second = publisher(local), publisher(local, 5, "second")
        fill(local, sender)
        publish(sender, [6])
        publish(second, [7], topic="queue/b")
        acknowledge(both, both.received())
        assert (answered(sender), answered(second)) == ([], [7])
        acknowledge(one, one.received())
        assert answered(sender) == [6]


def test_a_group_tells_too() -> None:
    """FC-34: the queue of a group tells like that of a session."""
    with broker("reject") as local:
        member = subscriber(local, 1, f"$share/group/{TOPIC}")
        sender = publisher(local)
        fill(local, sender)
        publish(sender, [6])
        assert answers(sender.received()) == [(6, QUOTA_EXCEEDED)]
        acknowledge(member, member.received())
        publish(sender, [6])
        assert answered(sender) == [6]
        assert drain(member) == [[3, 4, 5, 6]]


def test_publishers_of_a_group_wait() -> None:
    """FC-34: with `block` PUBLISHes wait for room in the queue of a group."""
    with broker("block") as local:
        member = subscriber(local, 1, f"$share/group/{TOPIC}")
        sender = publisher(local)
        publish(sender, [*HELD, 6, 7])
        assert answered(sender) == HELD
        assert drain(member) == [[*HELD, 6, 7]]
        assert answered(sender) == [6, 7]


def test_a_client_is_not_locked_up_by_its_own_queue() -> None:
    """FC-25, FC-34: a client that publishes more than its own queue holds still has its acknowledgements read."""
    with broker("block", producer_window_size=200) as local:
        client = local.client(5)
        client.connect("both")
        client.subscribe(TOPIC, 1)
        publish(client, list(range(1, 21)))
        got: list[int] = []
        confirmed: list[tuple[int, int]] = []
        for _ in range(10):
            packets = client.received()
            got += numbers(packets)
            confirmed += answers(packets)
            acknowledge(client, packets)
        assert len(confirmed) == 20
        assert got == [packet_id for packet_id, reason_code in sorted(confirmed) if reason_code == 0]


def test_a_producer_window() -> None:
    """FC-25, FC-34: a publisher whose PUBLISHes wait for another's queue is not read past its producer window."""
    with broker("block", producer_window_size=1) as local:
        reader = subscriber(local)
        sender = publisher(local)
        fill(local, sender)
        assert sender.transport.reading
        publish(sender, [6])
        assert not sender.transport.reading
        drain(reader)
        assert sender.transport.reading


def test_a_client_is_read_although_its_window_is_used_up() -> None:
    """FC-34: a client whose PUBLISH waits for its own queue is still read, whatever its producer window is."""
    with broker("block", producer_window_size=1) as local:
        client = local.client(5)
        client.connect("both")
        client.subscribe(TOPIC, 1)
        publish(client, [*HELD, 6])
        assert client.transport.reading


def test_room_in_bytes() -> None:
    """FC-34: a queue that is limited in bytes tells too, and a large message keeps its turn."""
    with broker("block", max_mqueue_len="infinity", max_mqueue_bytes=300) as local:
        reader = subscriber(local, 1, "queue/#")
        sender, second = publisher(local), publisher(local, 5, "second")
        fill(local, sender)
        publish(sender, [6], topic="queue/large", size=250)
        publish(second, [7], topic="queue/small")
        first = reader.received()
        acknowledge(reader, first[:1])
        assert (answered(sender), answered(second)) == ([], [])
        assert numbers(first) + drain(reader)[0] == [*HELD, 6, 7]


def test_a_quiet_publisher_is_not_told_of_a_loud_one() -> None:
    """FC-33, FC-34: a queue that is fair has room for a publisher that is below its share."""
    with broker("reject", mqueue_fairness="publisher", max_mqueue_len=4) as local:
        reader = subscriber(local)
        loud, quiet = publisher(local, 5, "loud"), publisher(local, 5, "quiet")
        publish(loud, [1, 2, 3, 4, 5, 6])
        publish(loud, [7])
        for number in (8, 9, 10):
            publish(quiet, [number])
        assert answers(loud.received())[-1] == (7, QUOTA_EXCEEDED)
        assert answers(quiet.received()) == [(8, 0), (9, 0), (10, QUOTA_EXCEEDED)]
        assert sorted(drain(reader)[0]) == [1, 2, 3, 4, 5, 6, 8, 9]


@pytest.mark.parametrize(("window", "queue", "fit"), [(1, 2, 1), (3, 1, 2)])
def test_overlapping_subscriptions(window: int, queue: int, fit: int) -> None:
    """FC-34: a PUBLISH needs room for both deliveries that one client gets of it, in window and queue together."""
    session = {"max_inflight": window, "max_mqueue_len": queue, "mqueue_overflow": "reject"}
    with LocalBroker(session=session, mqtt={"overlapping_subscriptions": "each"}) as local:
        reader = subscriber(local)
        reader.subscribe("queue/+", 1)
        sender = publisher(local)
        publish(sender, [1, 2, 3])
        assert [reason_code for _, reason_code in answers(sender.received())].count(0) == fit


def test_retained_only_once_accepted() -> None:
    """FC-34: a PUBLISH that is refused is not retained either."""
    with broker("reject") as local:
        subscriber(local)
        sender = publisher(local)
        fill(local, sender)
        publish(sender, [6], retain=True)
        assert answers(sender.received()) == [(6, QUOTA_EXCEEDED)]
        late = subscriber(local)
        assert [number_of(packet) for packet in late.received() if isinstance(packet, Publish)] == []


def test_the_log_names_the_queue() -> None:
    """FC-34: the log says whose queue is full, and what happens."""
    with capture_logs() as logged, broker("reject") as local:
        plain_subscriber(local, 1, 5, TOPIC)
        sender = publisher(local)
        fill(local, sender)
        publish(sender, [6])
        answers(sender.received())
    said = {entry["event"]: entry["detail"] for entry in logged if "detail" in entry}
    assert said["mqueue_full"] == "3 deliveries wait, max_mqueue_len is 3; mqueue_overflow is reject"
    assert said["publish_refused"] == f"PUBLISH to '{TOPIC}', for which the queue of a subscriber has no room"


@pytest.mark.parametrize(
    ("room", "why"), [(3, "for which the queue of a subscriber has no room"), ("infinity", "which is full")]
)
def test_the_refusal_says_what_is_full(room: object, why: str) -> None:
    """FC-26, FC-34: of a topic with a limit that has room it is the queue of a subscriber, else the address itself."""
    full = {"mqueue_overflow": "reject", "max_mqueue_len": room}
    with capture_logs() as logged, local_broker("fail", full) as local:
        plain_subscriber(local, 1, 5)
        send(publisher(local), range(1, 20))
    said = [entry["detail"] for entry in logged if entry["event"] == "publish_refused"]
    assert said
    assert set(said) == {f"PUBLISH to 'full/a', {why}"}


def test_an_address_keeps_its_own_timeout() -> None:
    """FC-25: where no queue is full, `overflow_timeout` does not shorten the wait for room in an address."""
    with local_broker("block", {"overflow_timeout": "1s"}, block_timeout="100s") as local:
        reader, sender = fill_address(local)
        send(sender, [11], size=2_000)
        acknowledge(reader, reader.received()[:2])
        send(sender, [12])  # it would fit, but waits behind the large one (FC-9)
        local.pass_time(3)
        assert answers(sender.received()) == []
        assert len(parked(local)) == 2


def test_an_address_waits_no_longer_for_a_queue() -> None:
    """FC-34: where it is a queue that is full, a PUBLISH to an address waits for `overflow_timeout` only."""
    full = {"mqueue_overflow": "block", "max_inflight": 1, "max_mqueue_len": 1, "overflow_timeout": "3s"}
    with local_broker("block", full, block_timeout="100s") as local:
        plain_subscriber(local)
        sender = publisher(local)
        send(sender, [1, 2, 3])
        assert answered(sender) == [1, 2]
        local.pass_time(3.1)
        assert answers(sender.received()) == [(3, QUOTA_EXCEEDED)]
