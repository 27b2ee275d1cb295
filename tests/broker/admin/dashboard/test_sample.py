"""What one walk of the dashboard sees of the sessions of a broker."""

from collections.abc import Iterator
from typing import Any

import pytest

from broker.admin.dashboard import sample
from broker.admin.dashboard.sample import ROWS, Sample
from broker.runtime.clock import monotonic_us
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.publish import Publish
from tests.support.broker.local import LocalBroker, LocalClient

pytestmark = pytest.mark.once

SECOND = 1_000_000
LONGEST = 20
"""Of an mqueue."""
KEPT: Any = {props.SESSION_EXPIRY_INTERVAL: 3600, props.RECEIVE_MAXIMUM: 1}


class Walks:
    """A broker without sockets, and walks at times that a test says."""

    def __init__(self, local: LocalBroker) -> None:
        self.local = local
        self.now = 10**15
        self.publisher = local.client(5)
        self.publisher.connect("publisher")
        self._before = 0

    def subscriber(self, name: str, receive_maximum: int) -> LocalClient:
        """A client that acknowledges nothing by itself."""
        properties: Any = {props.RECEIVE_MAXIMUM: receive_maximum}
        client = self.local.client(5)
        client.connect(name, properties=properties)
        client.subscribe(f"{name}/#", qos=1)
        return client

    def publish(self, name: str, count: int) -> None:
        """Messages for one subscriber."""
        for _ in range(count):
            self.publisher.send(Publish(f"{name}/t".encode(), b"x", 0))

    def walk(self, seconds: float = 1) -> Sample:
        """Look at all sessions, so many seconds after the walk before."""
        self.now += int(seconds * SECOND)
        seen = Sample(lambda: self.now, self._before)
        for client in self.local.broker.clients.each():
            seen.see(client)
        self._before = seen.began
        return seen


@pytest.fixture
def walks() -> Iterator[Walks]:
    """A broker with a publisher."""
    with LocalBroker(session={"overflow_patience": 0, "max_mqueue_len": LONGEST}) as local:
        yield Walks(local)


def offer(walks: Walks, name: str, count: int) -> None:
    """So many deliveries of QoS 1 for one subscriber."""
    for _ in range(count):
        publish = Publish(f"{name}/t".encode(), b"x", 1)
        walks.local.run(lambda publish=publish: walks.local.broker.messages.publish_own(publish, 0))  # type: ignore[misc]


def fill(walks: Walks, name: str, count: int) -> LocalClient:
    """A subscriber whose window of one is full, with so many deliveries behind it."""
    client = walks.subscriber(name, 1)
    offer(walks, name, count + 1)
    return client


def take_all(client: LocalClient) -> None:
    """Acknowledge what comes until nothing more does."""
    while packets := client.received():
        for packet in packets:
            if isinstance(packet, Publish):
                client.send(Puback(packet.packet_id))


def test_slow_sessions(walks: Walks) -> None:
    """The longest backlog comes first, with the reason, and the key to change."""
    fill(walks, "a", 3)
    fill(walks, "b", 7)
    walks.subscriber("c", 1)
    seen = walks.walk()
    rows = seen.slow()
    assert [(row.client_id, row.mqueue_len) for row in rows] == [("b", 7), ("a", 3)]
    assert rows[0].because == "window full, a sign of late acknowledgement"
    assert "the client's own Receive Maximum" in rows[0].advice
    assert (seen.waits_for["window"], seen.waits_for["nothing"], seen.slow_count) == (2, 2, 2)


def test_for_how_long(walks: Walks) -> None:
    """Who looks for the first time sees since when a client has been slow, not since when somebody has looked."""
    before = monotonic_us()
    client = fill(walks, "a", 3)
    after = monotonic_us()
    walks.now = after + 300 * SECOND
    (row,) = walks.walk(0).slow()
    assert 300 * SECOND <= row.for_us <= 300 * SECOND + after - before
    take_all(client)
    assert walks.walk().slow() == []
    again = monotonic_us()
    offer(walks, "a", 3)
    (row,) = walks.walk().slow()
    assert row.for_us <= walks.now - again  # slow for no longer than since it has a backlog again


def test_for_how_long_after_an_absence(walks: Walks) -> None:
    """What has waited while a client was away does not make it slow for that time."""
    client = walks.local.client(5)
    client.connect("a", clean_start=False, properties=KEPT)
    client.subscribe("a/#", qos=1)
    client.connection.close()
    offer(walks, "a", 4)
    before = monotonic_us()
    walks.local.client(5).send(Connect("a", clean_start=False, properties=KEPT, version=5))
    walks.now = monotonic_us() + 60 * SECOND
    (row,) = walks.walk(0).slow()
    assert (row.client_id, row.for_us <= walks.now - before) == ("a", True)


def test_who_is_away(walks: Walks) -> None:
    """Clients that are away are counted with what waits for them, those with most first; others are not."""
    for name, count in (("a", 2), ("b", 5), ("idle", 0)):
        client = walks.local.client(5)
        client.connect(name, clean_start=False, properties=KEPT)
        client.subscribe(f"{name}/#", qos=1)
        client.connection.close()
        offer(walks, name, count)
    seen = walks.walk()
    assert [(row.client_id, row.waiting) for row in seen.away()] == [("b", 5), ("a", 2)]
    assert (seen.away_count, seen.away_len, seen.slow_count) == (2, 7, 0)


def test_what_is_dropped(walks: Walks) -> None:
    """Of whom most is dropped comes first, with the rate and the reason, whether connected or away."""
    fill(walks, "here", LONGEST)
    client = walks.local.client(5)
    client.connect("gone", clean_start=False, properties=KEPT)
    client.subscribe("gone/#", qos=1)
    client.connection.close()
    offer(walks, "gone", LONGEST)
    assert walks.walk().dropping() == []
    offer(walks, "here", 2)
    offer(walks, "gone", 6)
    rows = walks.walk(2).dropping()
    assert [(row.client_id, row.connected, row.dropped, row.reason) for row in rows] == [
        ("gone", False, 3.0, "queue_full"),
        ("here", True, 1.0, "queue_full"),
    ]
    assert all((row.mqueue_len, row.max_mqueue_len) == (LONGEST, LONGEST) for row in rows)
    assert ("away" in rows[0].advice, "Receive Maximum" in rows[1].advice) == (True, True)
    assert walks.walk().dropping() == []


def test_why_it_is_dropped(walks: Walks) -> None:
    """If it is not for want of room, the advice is about the reason."""
    client = walks.local.client(5)
    client.connect("a", properties={props.MAXIMUM_PACKET_SIZE: 100})
    client.subscribe("a/#", qos=1)
    walks.walk()
    walks.publisher.send(Publish(b"a/t", bytes(200), 0))
    (row,) = walks.walk().dropping()
    assert (row.reason, "Maximum Packet Size" in row.advice) == ("too_large", True)


def test_only_the_longest_are_listed(walks: Walks, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are slow, the list has a few, and all are counted."""
    monkeypatch.setattr(sample, "ROWS", 2)
    for number in range(5):
        fill(walks, f"c{number}", number + 1)
    seen = walks.walk()
    assert [row.client_id for row in seen.slow()] == ["c4", "c3"]
    assert (seen.slow_count, ROWS > 2) == (5, True)


def test_talkers(walks: Walks) -> None:
    """Messages both ways are counted per second between two walks; the first walk knows none."""
    walks.subscriber("a", 10)
    walks.publish("a", 4)
    assert walks.walk().talkers() == []
    walks.publish("a", 6)
    rows = walks.walk(2).talkers()
    assert {(row.client_id, row.received, row.sent) for row in rows} == {("publisher", 3.0, 0.0), ("a", 0.0, 3.0)}
    assert walks.walk().talkers() == []


def test_an_export_between_two_walks(walks: Walks) -> None:
    """An export begins the counters anew: what was counted before and after it is sent or dropped all the same."""
    walks.subscriber("a", 1)
    offer(walks, "a", LONGEST + 1)
    walks.walk()
    client = walks.local.broker.clients.get("a")
    assert client is not None
    for last in (walks.now - SECOND, walks.now + SECOND // 2):
        offer(walks, "a", 6)
        walks.publish("a", 4)
        client.session.take_counters(last)
        offer(walks, "a", 2)
        seen = walks.walk()
        assert [(row.client_id, row.dropped) for row in seen.dropping()] == [("a", 12.0)]


def test_a_new_session(walks: Walks) -> None:
    """The rate of a session that has come since the walk before is that since the walk."""
    walks.walk()
    walks.subscriber("a", 10)
    walks.publish("a", 3)
    rows = {row.client_id: row.sent for row in walks.walk().talkers()}
    assert rows["a"] == 3.0
