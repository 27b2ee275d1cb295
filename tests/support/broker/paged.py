"""A broker with a full address that pages, and clients that fill and empty it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from broker.cli.store_files import reading
from broker.storage.found import frames
from broker.storage.saved import Saved
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.collecting import collect
from tests.support.costs import held
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient, connected

TOPIC = "paged/a"
PAYLOAD = 490
FITTING = 20
LIMIT = held(FITTING, PAYLOAD + len(b"00 "), TOPIC)
"""How much the sessions may hold of each address."""


def sections(directory: Path, **rule: object) -> dict[str, object]:
    """Configuration: topics below `paged` are addresses that page, and queues are as long as those let them be."""
    return {
        "addresses": [{"match": "paged/#", "max_size_bytes": LIMIT, "full_policy": "page", **rule}],
        "persistence": {"directory": str(directory)},
        "session": {"max_mqueue_len": "infinity", "max_inflight": 5, "retry_interval": "infinity"},
        "admin": {"socket": None},
    }


def paging_broker(start: Start, directory: Path, **rule: object) -> BrokerProcess:
    """A broker with such addresses."""
    return start(sections=sections(directory, **rule))


def pages(directory: Path) -> int:
    """How many pages the journal holds, of all addresses."""
    saved = Saved()
    with reading(directory) as found:
        for number, content in frames(found):
            saved.read(number, content)
    saved.finish()
    return sum(each.deliveries.length for each in saved.sessions.values() if each.topic)


def are_gone(directory: Path) -> bool:
    """Whether the journal holds no page."""
    return pages(directory) == 0


def payload(number: int, size: int = PAYLOAD) -> bytes:
    """A payload that says which it is."""
    return b"%d " % number + bytes(size)


def number_of(message: Publish) -> int:
    """Which payload it is."""
    return int(message.payload.split(b" ")[0])


class Subscriber:
    """Takes messages of one topic filter when it is told to: until then it acknowledges nothing, or reads nothing."""

    def __init__(self, address: Address, version: int, qos: int, topic_filter: str = "paged/#") -> None:
        self.client = WireClient(address, version, receive_buffer=4096)
        kept: props.Properties | None = {props.SESSION_EXPIRY_INTERVAL: 100} if version == 5 else None
        self.client.connect(properties=kept)
        self.client.subscribe(topic_filter, qos=qos)

    def take(self, count: int) -> list[Publish]:
        """The next messages, acknowledged as they come."""
        messages: list[Publish] = []
        while len(messages) < count:
            packet = self.client.receive()
            if isinstance(packet, Pubrel):
                self.client.send(Pubcomp(packet.packet_id))
                continue
            assert isinstance(packet, Publish), packet
            messages.append(packet)
            if packet.qos:
                self.client.send((Puback if packet.qos == 1 else Pubrec)(packet.packet_id))
        return messages

    def take_rest(self) -> list[int]:
        """All that is on its way; nothing may be on disk any more."""
        return [number_of(message) for message in collect(self.client)]

    def take_numbers(self, count: int) -> list[int]:
        """Which those are."""
        return [number_of(message) for message in self.take(count)]


Subscribe = Callable[..., Subscriber]


def publish(client: WireClient, numbers: Iterable[int], qos: int, size: int = PAYLOAD, **options: Any) -> None:
    """Publish numbered messages, each acknowledged before the next."""
    for number in numbers:
        client.publish(TOPIC, payload(number, size), qos, **options)


def fill(address: Address, directory: Path, count: int = 100, qos: int = 1) -> None:
    """Publish numbered messages, of which the first are held by sessions and the others are on disk in the end."""
    with connected(address, 5) as publisher:
        publish(publisher, range(count), qos)
    assert 0 < pages(directory) < count


def expiry(message: Publish) -> int:
    """What is left of its Message Expiry Interval, in seconds."""
    assert message.properties is not None
    return int(str(message.properties[props.MESSAGE_EXPIRY_INTERVAL]))
