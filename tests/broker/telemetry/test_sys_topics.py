"""The topics under $SYS: which there are, and when they are published and to whom."""

import pytest

from broker import __version__
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.support.broker.local import LocalBroker
from tests.support.broker.sys_topics import ADDRESSES, TOPICS, Values, name
from tests.support.wire import WireClient, connected

FAST = {"mqtt": {"sys_interval": "100ms"}}


def read(client: WireClient, topics: set[str] = TOPICS) -> dict[str, str]:
    """What the retained messages say at this moment."""
    client.subscribe("$SYS/#")
    values: dict[str, str] = {}
    while set(values) != topics:
        message = client.receive_message()
        values[name(message)] = message.payload.decode()
    return values


def test_topics(start: Start) -> None:
    """The broker retains all topics as soon as it runs, with its version and its uptime."""
    with start(sections=FAST) as broker, connected(broker.address(), 5) as client:
        values = read(client)
        assert values["version"] == f"sluice version {__version__}"
        number, unit = values["uptime"].split()
        assert (int(number) < 30, unit) == (True, "seconds")


def test_updates(start: Start) -> None:
    """The broker publishes a changed value without RETAIN to subscribers and retains it for new ones."""
    with start(sections=FAST) as broker, connected(broker.address(), 5) as watcher:
        watcher.subscribe("$SYS/broker/clients/connected", qos=1)
        with connected(broker.address(), 4), connected(broker.address(), 4):
            while (message := watcher.receive_message()).payload != b"3":
                pass
            assert (message.retain, message.qos) == (False, 1)
            with connected(broker.address(), 4) as another:
                another.subscribe("$SYS/broker/clients/+")
                found = {another.receive_message().topic for _ in range(8)}
                assert len(found) == 8


@pytest.mark.parametrize("topic_filter", ["#", "+/#", "+/broker/uptime"])
def test_not_for_wildcards(start: Start, topic_filter: str) -> None:
    """[MQTT-4.7.2-1]: a wildcard at the first level matches no topic under $SYS, neither retained nor new ones."""
    with (
        start(sections=FAST) as broker,
        connected(broker.address(), 4) as watcher,
        connected(broker.address(), 4) as other,
    ):
        other.subscribe("$SYS/broker/bytes/received")
        watcher.subscribe(topic_filter)
        watcher.expect_nothing_more()
        before = other.receive_message().payload
        while other.receive_message().payload == before:
            pass
        watcher.expect_nothing_more()


def test_none(start: Start) -> None:
    """The broker publishes no topics with a sys_interval of infinity."""
    with start(sections={"mqtt": {"sys_interval": "infinity"}}) as broker, connected(broker.address(), 5) as client:
        client.subscribe("$SYS/#")
        client.expect_nothing_more()


def test_without_retained_messages(start: Start) -> None:
    """The broker publishes all topics at each interval if it retains no messages."""
    sections = {"mqtt": {"sys_interval": "100ms", "retain_available": False}}
    with start(sections=sections) as broker, connected(broker.address(), 5) as client:
        client.subscribe("$SYS/broker/version")
        for _ in range(2):
            assert not client.receive_message().retain


def test_few_levels(start: Start) -> None:
    """The broker leaves out topics with more levels than max_topic_levels."""
    with (
        start(sections={"mqtt": {"sys_interval": "100ms", "max_topic_levels": 4}}) as broker,
        connected(broker.address(), 5) as client,
    ):
        client.subscribe("$SYS/#")
        wanted = {topic for topic in TOPICS if topic.count("/") < 2}
        found = {name(client.receive_message()) for _ in wanted}
        assert found == wanted


@pytest.mark.parametrize("sections", [{}, {"addresses": [{"match": "a", "max_size_bytes": 1}]}])
def test_topics_of_addresses_if_there_are_any(start: Start, sections: dict[str, object]) -> None:
    """The broker publishes the topics of addresses only if addresses are configured."""
    with (
        start(sections=FAST | sections) as broker,
        connected(broker.address(), 5) as client,
        connected(broker.address(), 5) as other,
    ):
        read(client, TOPICS | set(ADDRESSES if sections else ()))
        other.subscribe("$SYS/broker/addresses/+")
        for _ in ADDRESSES if sections else ():
            other.receive_message()
        other.expect_nothing_more()


def test_only_what_changes() -> None:
    """The broker does not publish a value again that has not changed."""
    with LocalBroker() as local:
        values = Values(local)
        values.update()
        watcher = local.client()
        watcher.connect("watcher")
        watcher.send(Subscribe(1, [Subscription("$SYS/#", 0, retain_handling=2)]))
        watcher.received()
        values.update()
        again = {name(packet) for packet in watcher.received() if isinstance(packet, Publish)}
        assert "clients/connected" in again
        assert not again & {"version", "clients/expired", "publish/messages/received", "publish/messages/dropped"}
