"""Clients that send faster than sessions run: mailboxes stay short, because the publishers are not read."""

from functools import partial

from broker.runtime.clock import monotonic_us
from broker.runtime.scheduler import TURN_PASSES
from protocol.acknowledgements import Puback
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from session.outbound import Outbound
from tests.support.broker.local import LocalBroker, LocalClient

AT_ONCE = 256
"""Packets of one connection that are handled before sessions have their turn."""


def numbered(count: int, qos: int = 0) -> bytes:
    """PUBLISHes to `t` whose payloads count up from 0."""
    return b"".join(Publish(b"t", b"%d" % n, qos, packet_id=(n + 1) * (qos > 0)).encode(5) for n in range(count))


def outbound_of(client: LocalClient) -> Outbound:
    """The session of a connected client, on its sending side."""
    session = client.connection.session
    assert session is not None
    return session.outbound


def subscriber_and_publisher(local: LocalBroker) -> tuple[LocalClient, LocalClient]:
    """One client that is subscribed to `t`, and one that is not."""
    subscriber, publisher = local.client(), local.client()
    subscriber.connect("subscriber")
    subscriber.subscribe("t")
    publisher.connect("publisher")
    return subscriber, publisher


def let_it_read(local: LocalBroker, client: LocalClient) -> None:
    """Let the loop turn until the broker reads from `client` again."""
    for _ in range(1000):
        if client.transport.reading:
            return
        local.run(lambda: None)
    raise AssertionError("the broker reads no more")


def payloads(client: LocalClient) -> list[bytes]:
    """The payloads of the messages that have come."""
    return [packet.payload for packet in client.received() if isinstance(packet, Publish)]


def test_a_flood_waits_for_the_sessions() -> None:
    """A publisher is not read until the sessions have taken what it sent; all arrives, in order."""
    with LocalBroker() as local:
        subscriber, publisher = subscriber_and_publisher(local)
        flood = numbered(5000)
        local.run(lambda: publisher.socket.data_received(flood))
        assert not publisher.transport.reading
        longest = 0
        while not publisher.transport.reading:
            local.run(lambda: None)
            longest = max(longest, outbound_of(subscriber).mailbox.length())
        assert longest <= AT_ONCE
        assert publisher.connection.session is not None
        assert publisher.connection.session.take_counters(monotonic_us()).uncommon.reading_paused_us > 0
        assert payloads(subscriber) == [b"%d" % number for number in range(5000)]


def test_sessions_that_keep_up() -> None:
    """Reading a publisher is not paused while the sessions take what it sends in one pass each."""
    with LocalBroker() as local:
        subscriber, publisher = subscriber_and_publisher(local)
        other = local.client()
        other.connect("other")
        other.subscribe("t")

        def is_read_after_one() -> bool:
            publisher.socket.data_received(numbered(1))
            return publisher.transport.reading

        assert [local.run(is_read_after_one) for _ in range(3)] == [True] * 3
        assert len(payloads(subscriber)) == len(payloads(other)) == 3


def test_many_sessions_at_once() -> None:
    """All sessions that one message wakes run, though only some of them in one turn of the loop."""
    with LocalBroker() as local:
        clients = [local.client() for _ in range(3 * TURN_PASSES)]
        for number, client in enumerate(clients):
            client.connect(f"subscriber {number}")
            client.subscribe("t")
        publisher = local.client()
        publisher.connect("publisher")
        publisher.send(Publish(b"t", b"x"))
        assert [payloads(client) for client in clients] == [[b"x"]] * len(clients)


def test_others_are_read_meanwhile() -> None:
    """Other clients are read while one is not because of its flood."""
    with LocalBroker() as local:
        subscriber, publisher = subscriber_and_publisher(local)
        other = local.client()
        other.connect("other")
        flood = numbered(100_000)
        local.run(lambda: publisher.socket.data_received(flood))
        other.send(Publish(b"t", b"between"))
        assert not publisher.transport.reading
        assert b"between" in payloads(subscriber)


def test_a_busy_broker_shuts_nobody_out() -> None:
    """A publisher that has sent a flood is read again even if sessions are always awake."""
    with LocalBroker() as local:
        subscriber, publisher = subscriber_and_publisher(local)
        outbound = outbound_of(subscriber)
        flood = numbered(AT_ONCE + 1)

        def both() -> None:
            for _ in range(40_000):
                outbound.mailbox.add(Publish(b"t", b"earlier"))
            publisher.socket.data_received(flood)

        local.run(both)
        let_it_read(local, publisher)
        assert outbound.mailbox.length() > 10_000


def test_the_end_of_a_flood_counts() -> None:
    """What arrived before the end of a connection is handled, also if the end is read while it waits (TLS)."""
    with LocalBroker() as local:
        subscriber, publisher = subscriber_and_publisher(local)
        flood = numbered(3000) + Disconnect().encode(5)

        def send_and_go() -> None:
            publisher.socket.data_received(flood)
            publisher.socket.eof_received()

        local.run(send_and_go)
        assert publisher.gone
        while outbound_of(subscriber).mailbox.length():
            local.run(lambda: None)
        assert len(payloads(subscriber)) == 3000


def test_gone_in_the_middle() -> None:
    """What has arrived is handled, also if the connection is lost while it waits [MQTT-3.14.4-3]."""
    with LocalBroker() as local:
        subscriber, publisher = subscriber_and_publisher(local)
        flood = numbered(3000)

        def send_and_break() -> None:
            publisher.socket.data_received(flood)
            publisher.transport.abort()

        local.run(send_and_break)
        assert publisher.gone
        while outbound_of(subscriber).mailbox.length():
            local.run(lambda: None)
        assert len(payloads(subscriber)) == 3000


def test_more_comes_while_the_rest_waits() -> None:
    """Data that TLS hands over while reading is paused is handled after what waits."""
    with LocalBroker() as local:
        subscriber, publisher = subscriber_and_publisher(local)
        flood = numbered(1000)

        def send_twice() -> None:
            publisher.socket.data_received(flood[:9000])
            publisher.socket.data_received(flood[9000:])

        local.run(send_twice)
        let_it_read(local, publisher)
        assert payloads(subscriber) == [b"%d" % number for number in range(1000)]


def test_a_crash_is_not_hidden() -> None:
    """An exception while reading is resumed is logged and closes that connection; the next one is read."""

    def broken() -> None:
        raise RuntimeError("out of order")

    with LocalBroker() as local:
        publisher, other = local.client(), local.client()
        for number, client in enumerate((publisher, other)):
            client.connect(f"publisher-{number}")
        flood = numbered(AT_ONCE + 10)

        def send_both() -> None:
            publisher.socket.data_received(flood)
            other.socket.data_received(flood)

        publisher.transport.resume_reading = broken  # type: ignore[method-assign]  # it fails
        local.run(send_both)
        assert publisher.gone
        assert other.transport.reading
        assert [crash["message"] for crash in local.crashes] == ["reading the rest of a chunk has failed"]
        local.crashes.clear()


def test_retained_messages_again_and_again() -> None:
    """A SUBSCRIBE that asks for all retained messages several times gets them, in bounded pieces."""
    with LocalBroker() as local:
        publisher, greedy = local.client(), local.client()
        publisher.connect("publisher")
        publisher.send(*[Publish(b"r/%d" % number, b"x" * 500, 0, True) for number in range(200)])
        let_it_read(local, publisher)
        greedy.connect("greedy")
        outbound = outbound_of(greedy)
        filters = ("#", "+/#", "r/#", "r/+", "+/+")
        longest = 0
        greedy.send(Subscribe(1, [Subscription(topic_filter) for topic_filter in filters]), Publish(b"last", b""))
        assert outbound.backlog is not None
        assert outbound.backlog.sources is not None
        while outbound.backlog.sources.sources:
            longest = max(longest, outbound.mailbox.length(), outbound.mqueue.length if outbound.mqueue else 0)
            local.run(lambda: None)
        packets = greedy.received()
        assert isinstance(packets[0], Suback)
        assert longest <= 200
        messages = [packet for packet in packets if isinstance(packet, Publish)]
        assert len([message for message in messages if message.retain]) == len(filters) * 200
        assert [message.topic for message in messages if not message.retain] == [b"last"]


def test_floods_in_chunks_that_end_early() -> None:
    """Chunks of fewer packets also wait when sessions are behind, however many publishers send them."""
    with LocalBroker() as local:
        subscriber, publisher = subscriber_and_publisher(local)
        others = [local.client() for _ in range(5)]
        for number, client in enumerate(others):
            client.connect(f"other-{number}")
        longest = sent = 0
        flood = numbered(200)
        for _ in range(50):
            for client in (publisher, *others):
                if client.transport.reading:
                    client.send(flood)
                    sent += 200
            longest = max(longest, outbound_of(subscriber).mailbox.length())
        for client in (publisher, *others):
            let_it_read(local, client)
        while outbound_of(subscriber).mailbox.length():
            local.run(lambda: None)
        assert longest <= 6 * 200
        assert len(payloads(subscriber)) == sent > 6 * 200


def test_acknowledgements_do_not_wait() -> None:
    """A client that acknowledges is read while sessions are behind, because that frees its window."""
    with LocalBroker() as local:
        subscriber, publisher = subscriber_and_publisher(local)
        publisher.subscribe("other", 1)
        mailbox = outbound_of(subscriber).mailbox
        for _ in range(5000):
            mailbox.add(Publish(b"t", b"x"))
        local.run(subscriber.connection.wake)
        publisher.send(Puback(1))
        assert local.broker.run_queue.behind
        assert publisher.transport.reading
        publisher.send(Publish(b"none", b""))
        assert not publisher.transport.reading
        let_it_read(local, publisher)


def test_sessions_run_in_the_order_in_which_they_are_woken() -> None:
    """One chunk wakes three sessions: they write in the order of the messages in it."""
    with LocalBroker() as local:
        wrote: list[str] = []

        def note(name: str, _data: object) -> None:
            wrote.append(name)

        for name in "abc":
            client = local.client()
            client.connect(name)
            client.subscribe(name)
            client.transport.write = partial(note, name)  # type: ignore[method-assign]  # a spy
        publisher = local.client()
        publisher.connect("publisher")
        publisher.send(*[Publish(name.encode(), b"x") for name in "abc"])
        assert wrote == ["a", "b", "c"]


def test_a_chunk_with_a_rest_runs_no_session_at_once() -> None:
    """Of a flood the rest is handled in the loop's next turn, and the session that it wakes runs there too."""
    with LocalBroker() as local:
        subscriber, publisher = subscriber_and_publisher(local)
        subscriber.received()
        outbound = outbound_of(subscriber)

        def waiting_after(count: int) -> int:
            publisher.socket.data_received(numbered(count))
            return outbound.mailbox.length()

        assert local.run(lambda: waiting_after(AT_ONCE + 1)) == AT_ONCE
        assert len(payloads(subscriber)) == AT_ONCE + 1
