"""FC-16: the packets of a paced client keep their order and meaning: none is lost, reordered or delivered twice."""

import pytest

from broker.connection.timers import KeepAliveTimer
from broker.runtime.clock import monotonic_us
from broker.server.shutdown import disconnect_all
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubrec, Pubrel
from protocol.connect import Will
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.local import LocalBroker, LocalClient

SMALL = {"max_inflight": 1, "max_mqueue_len": 10}


class Scene:
    """A subscriber that takes one message at a time, and a publisher that is held back for it."""

    def __init__(self, local: LocalBroker) -> None:
        self.local = local
        self.slow, self.publisher = local.client(4), local.client(4)
        self.slow.connect("slow")
        self.slow.subscribe("t", 1)
        self.publisher.connect("publisher", will=Will(b"will", b"will"))

    def watcher(self) -> LocalClient:
        """A client that gets the will, and what is published to the topic `other`."""
        watcher = self.local.client(4)
        watcher.connect("watcher")
        watcher.subscribe("will")
        watcher.subscribe("other")
        return watcher

    def hold_back(self) -> None:
        """Fill the queue of the one, until the other is held back."""
        self.publisher.send(*[Publish(b"t", b"fill", 1, packet_id=number) for number in range(1, 13)])
        self.publisher.send(Publish(b"t", b"fill", 1, packet_id=13))
        self.publisher.received()
        assert self.publisher.connection.paced

    def drained(self) -> list[bytes]:
        """Every payload that the subscriber gets, which acknowledges each."""
        return [bytes(packet.payload) for packet in drain(self.slow)]


def drain(client: LocalClient) -> list[Publish]:
    """Every message that comes to a client, which acknowledges as if all were QoS 1 or 0."""
    messages: list[Publish] = []
    while packets := client.received():
        found = [packet for packet in packets if isinstance(packet, Publish)]
        messages += found
        client.send(*[Puback(packet.packet_id) for packet in found if packet.qos])
    return messages


def test_pubrel_does_not_overtake_its_publish() -> None:
    """FC-16, FC-21: a PUBLISH that is sent again waits with its PUBREL behind it, and is delivered once."""
    with LocalBroker(session=SMALL) as local:
        scene = Scene(local)
        scene.publisher.send(Publish(b"t", b"once", 2, packet_id=100))
        scene.publisher.expect(Pubrec)
        scene.hold_back()
        scene.publisher.send(Publish(b"t", b"once", 2, dup=True, packet_id=100), Pubrel(100))
        scene.publisher.send(Publish(b"t", b"next", 2, packet_id=100))
        assert scene.drained() == [b"once"] + [b"fill"] * 13 + [b"next"]


def test_what_came_before_a_malformed_packet() -> None:
    """FC-16: PUBLISHes that waited when the client sent a malformed packet are delivered."""
    with LocalBroker(session=SMALL) as local:
        scene = Scene(local)
        scene.hold_back()
        scene.publisher.send(Publish(b"t", b"before"), b"\xf0\x00")
        assert scene.publisher.transport.closed
        assert scene.drained() == [b"fill"] * 13 + [b"before"]


def test_what_came_before_a_take_over() -> None:
    """FC-16: PUBLISHes that waited at a take-over are delivered."""
    with LocalBroker(session=SMALL) as local:
        scene = Scene(local)
        scene.hold_back()
        scene.publisher.send(Publish(b"t", b"before"))
        local.client(4).connect("publisher")
        assert scene.drained() == [b"fill"] * 13 + [b"before"]


def test_what_came_before_the_keep_alive_ran_out() -> None:
    """FC-16: PUBLISHes that wait when the keep-alive ends are delivered, then the will is."""
    with LocalBroker(session=SMALL) as local:
        scene = Scene(local)
        watcher = scene.watcher()
        scene.hold_back()
        scene.publisher.send(Publish(b"other", b"before"))
        timer = KeepAliveTimer(local.broker.wheel, scene.publisher.connection, 0)
        local.run(lambda: timer.due(monotonic_us()))
        assert scene.publisher.gone
        assert [bytes(message.payload) for message in drain(watcher)] == [b"before", b"will"]


def test_what_came_before_the_broker_stops() -> None:
    """FC-16 [MQTT-3.14.4-3]: a DISCONNECT that waits when the broker stops cancels the will."""
    with LocalBroker(session=SMALL) as local:
        scene = Scene(local)
        watcher = scene.watcher()
        scene.hold_back()
        scene.publisher.send(Publish(b"other", b"before"), Disconnect())
        parts = local.broker
        local.run(
            lambda: disconnect_all(
                parts.connections,
                parts.clients,
                parts.addresses,
                parts.capabilities,
                parts.run_queue,
                monotonic_us(),
            )
        )
        assert watcher.gone
        assert [bytes(message.payload) for message in drain(watcher)] == [b"before"]


@pytest.mark.parametrize("behind", ["another packet", "many bytes"])
def test_acknowledgements_that_others_wait_for(behind: str) -> None:
    """FC-16: the acknowledgements of a paced client count at once, so none of its own deliveries is dropped."""
    with LocalBroker(session=SMALL) as local:
        scene = Scene(local)
        scene.publisher.subscribe("mine", 1)
        scene.hold_back()
        if behind == "another packet":
            scene.publisher.send(Subscribe(2, [Subscription("later", 0)]))
        else:
            scene.publisher.send(Publish(b"other", bytes(70_000)))
        assert not scene.publisher.transport.reading
        other = local.client(4)
        other.connect("other")
        for first in (1, 21):
            other.send(*[Publish(b"mine", b"%d" % number, 1, packet_id=number) for number in range(first, first + 20)])
        assert [int(message.payload) for message in drain(scene.publisher)] == list(range(1, 41))
        assert scene.publisher.connection.paced


@pytest.mark.parametrize("qos", [1, 2])
def test_own_messages_that_a_client_sends_at_once(qos: int) -> None:
    """FC-16: a client that subscribes to its own topic gets all of a burst that it sends before it acknowledges."""
    patient = {"max_awaiting_rel": 0, "overflow_patience": "60s"}  # which lasts on a busy machine too
    with LocalBroker(session=SMALL | patient) as local:
        client = local.client(4)
        client.connect("both")
        client.subscribe("mine", 1)
        messages = [Publish(b"mine", b"%d" % number, qos, packet_id=number) for number in range(1, 3001)]
        for first in range(0, 3000, 500):
            client.send(*messages[first : first + 500])
        assert [int(message.payload) for message in drain(client)] == list(range(1, 3001))


def test_expiry_of_what_waited_for_an_id() -> None:
    """FC-22, FC-13 [MQTT-3.3.2-5]: a message that expired while it waited for a packet id is not given to a group."""
    with LocalBroker(session={"max_awaiting_rel": 1}) as local:
        member, publisher = local.client(5), local.client(5)
        member.connect("member")
        member.subscribe("$share/g/t", 1)
        publisher.connect("publisher")
        first = Publish(b"t", b"first", 2, packet_id=1)
        publisher.send(first, Publish(b"t", b"second", 2, False, {props.MESSAGE_EXPIRY_INTERVAL: 60}, packet_id=2))
        publisher.expect(Pubrec)
        ids = local.broker.clients.by_id["publisher"].session.inbound._ids
        assert ids is not None
        assert ids.waiting is not None
        parked = ids.waiting.publishes[2]
        parked.received_at -= 61_000_000
        parked.expires_at -= 61_000_000
        publisher.send(Pubrel(1))
        assert [bytes(packet.payload) for packet in drain(member)] == [b"first"]
