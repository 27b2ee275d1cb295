"""FC-35: a ledger outside of the broker has no gaps."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.dropping import EACH, Reader, publish, published
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.stored import KEPT

CLIENTS = ("a", "b")


class Ledger:
    """What each client is owed, what it has acknowledged, and what it has lost: nothing is missing at the end."""

    def __init__(self, local: LocalBroker) -> None:
        self.local = local
        self.reader = Reader(local, qos=0)  # whose queue never overflows while it is online (FC-6)
        self.owed: set[tuple[str, int]] = set()
        self.acknowledged: set[tuple[str, int]] = set()
        self.told: list[tuple[str, int]] = []
        self.online: dict[str, LocalClient] = {}
        self.unacknowledged: dict[str, dict[int, int]] = {name: {} for name in CLIENTS}
        self._number = 0

    def connect(self, name: str, clean: bool) -> None:
        """A client comes, or comes back."""
        client = self.online[name] = self.local.client()
        self.unacknowledged[name] = {}
        client.send(Connect(name, clean, 0, properties=KEPT, version=5))
        client.send(Subscribe(1, [Subscription("t/+", 1)]))
        self.look()

    def disconnect(self, name: str) -> None:
        """Its connection breaks."""
        if name in self.online:
            self.look()
            self.online.pop(name).drop()

    def acknowledge(self, name: str, count: int) -> None:
        """It acknowledges some of what it has got."""
        for packet_id in list(self.unacknowledged[name])[:count] if name in self.online else []:
            self.acknowledged.add((name, self.unacknowledged[name].pop(packet_id)))
            self.online[name].send(Puback(packet_id))
        self.look()

    def publish(self, count: int) -> None:
        """Messages for all of them."""
        for _ in range(count):
            self._number += 1
            self.owed |= {(name, self._number) for name in CLIENTS}
            publish(self.local, Publish(b"t/%d" % self._number, b"", 1))
        self.look()

    def look(self) -> None:
        """Take what has come."""
        for name, client in self.online.items():
            for message in published(client.received()):
                self.unacknowledged[name][message.packet_id] = int(message.topic.removeprefix(b"t/"))
        for told in self.reader.told():
            self.told.append((told["client_id"], int(told["topic"].removeprefix("t/"))))


STEPS = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 5)),
    st.tuples(st.just("disconnect"), st.sampled_from(CLIENTS)),
    st.tuples(st.just("connect"), st.sampled_from(CLIENTS), st.booleans()),
    st.tuples(st.just("acknowledge"), st.sampled_from(CLIENTS), st.integers(1, 4)),
)


@settings(max_examples=40)
@given(st.lists(STEPS, max_size=25), st.sampled_from(["drop_oldest", "drop_oldest_qos0", "drop_newest"]))
def test_nothing_is_missing_in_a_ledger(steps: list[tuple[Any, ...]], overflow: str) -> None:
    """FC-35: what a client is owed is acknowledged or told, and not both, whatever becomes of its session."""
    with LocalBroker(**EACH, session={"max_inflight": 2, "max_mqueue_len": 3, "mqueue_overflow": overflow}) as local:
        ledger = Ledger(local)
        for name in CLIENTS:
            ledger.connect(name, True)
        for step, *arguments in steps:
            getattr(ledger, step)(*arguments)
        for name in CLIENTS:
            ledger.connect(name, True)
        assert len(set(ledger.told)) == len(ledger.told)
        assert set(ledger.told) | ledger.acknowledged == ledger.owed
        assert not set(ledger.told) & ledger.acknowledged
