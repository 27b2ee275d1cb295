"""What one walk of the dashboard sees of the sessions of a broker."""

from collections.abc import Iterator
from typing import Any

import pytest

from broker.admin.dashboard import sample
from broker.admin.dashboard.sample import ROWS, Sample
from protocol import properties as props
from protocol.publish import Publish
from tests.support.broker.local import LocalBroker, LocalClient

pytestmark = pytest.mark.once

SECOND = 1_000_000


class Walks:
    """A broker without sockets, and walks at times that a test says."""

    def __init__(self, local: LocalBroker) -> None:
        self.local = local
        self.now = 10**15
        """Far ahead of the broker's clock, so that no interval of its counters begins later."""
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
    with LocalBroker(session={"overflow_patience": 0}) as local:
        yield Walks(local)


def fill(walks: Walks, name: str, count: int) -> LocalClient:
    """A subscriber whose window of one is full, with so many deliveries behind it."""
    client = walks.subscriber(name, 1)
    for _ in range(count + 1):
        publish = Publish(f"{name}/t".encode(), b"x", 1)
        walks.local.run(lambda publish=publish: walks.local.broker.messages.publish_own(publish, 0))  # type: ignore[misc]
    return client


def test_slow_sessions(walks: Walks) -> None:
    """The longest backlog comes first, with the reason, the time since it was first seen, and the key to change."""
    fill(walks, "a", 3)
    fill(walks, "b", 7)
    walks.subscriber("c", 1)
    walks.walk()
    seen = walks.walk(2.5)
    rows = seen.slow()
    assert [(row.client_id, row.mqueue_len, row.for_us) for row in rows] == [("b", 7, 2_500_000), ("a", 3, 2_500_000)]
    assert rows[0].because == "window full, a sign of late acknowledgement"
    assert "the client's own Receive Maximum" in rows[0].advice
    assert (seen.waits_for["window"], seen.waits_for["nothing"], seen.slow_count) == (2, 2, 2)


def test_a_backlog_that_has_gone(walks: Walks) -> None:
    """Who has caught up is not slow any more, and is slow for no time when a backlog comes again."""
    fill(walks, "a", 3)
    walks.walk()
    client = walks.local.broker.clients.get("a")
    assert client is not None
    assert client.session.outbound.backlog is not None
    waiting, client.session.outbound.backlog = client.session.outbound.backlog, None
    assert walks.walk().slow() == []
    client.session.outbound.backlog = waiting
    assert [row.for_us for row in walks.walk().slow()] == [0]


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
    """When the counters begin anew, what they have counted since is divided by the time since."""
    walks.subscriber("a", 10)
    walks.publish("a", 4)
    walks.walk()
    client = walks.local.broker.clients.get("a")
    assert client is not None
    client.session.take_counters(walks.now + SECOND // 2)
    walks.publish("a", 6)
    rows = {row.client_id: row.sent for row in walks.walk().talkers()}
    assert rows["a"] == 12.0


def test_a_new_session(walks: Walks) -> None:
    """The rate of a session that has come since the walk before is that since it came."""
    walks.walk()
    walks.subscriber("a", 10)
    client = walks.local.broker.clients.get("a")
    assert client is not None
    client.session.counters.interval_start = walks.now + SECOND // 4
    walks.publish("a", 3)
    rows = {row.client_id: row.sent for row in walks.walk().talkers()}
    assert rows["a"] == 4.0
