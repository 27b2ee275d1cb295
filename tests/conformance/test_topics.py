"""Topic names and topic filters (section 4.7)."""

import pytest

from protocol.acknowledgements import Puback
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.conformance import by_hand
from tests.conformance.delivery import REFUSED, collect, messages, subscribe, topics, unique
from tests.support.process import Address
from tests.support.wire import connected

TOPICS = ["t", "t/", "t/a", "t/a/", "t/a/b", "t/a/b/c", "t//b", "/t", "/t/a", "u/a", "tt/a"]
"""Published with one more level in front, so that each test has topics of its own."""


def check_refused(address: Address, version: int, topic_filter: str | bytes) -> None:
    """A refusal in SUBACK and a closed connection are both accepted: the standards require neither."""
    with connected(address, version) as client:
        client.send(by_hand.subscribe(version, 1, [(topic_filter, 0)]))
        try:
            first, body = by_hand.receive(client)
        except ConnectionError:
            return
        if first == by_hand.SUBACK:
            assert by_hand.codes(version, body, 1)[0] >= REFUSED
        else:
            assert not isinstance(client.expect_close(), Suback)


def check_closes(address: Address, version: int, packet: bytes) -> None:
    """The packet closes the connection without any other answer."""
    with connected(address, version) as client:
        client.send(packet)
        assert not isinstance(client.expect_close(), (Suback, Puback))


# -- wildcards


@pytest.mark.parametrize(
    ("topic_filter", "matching"),
    [
        ("t", ["t"]),
        ("t/a", ["t/a"]),
        ("t/", ["t/"]),
        ("/t", ["/t"]),
        ("t//b", ["t//b"]),
        ("#", TOPICS),
        ("t/#", ["t", "t/", "t/a", "t/a/", "t/a/b", "t/a/b/c", "t//b"]),
        ("t/a/#", ["t/a", "t/a/", "t/a/b", "t/a/b/c"]),
        ("/#", ["/t", "/t/a"]),
        ("+", ["t"]),
        ("t/+", ["t/", "t/a"]),
        ("+/a", ["t/a", "u/a", "tt/a"]),
        ("/+", ["/t"]),
        ("+/+", ["t/", "t/a", "/t", "u/a", "tt/a"]),
        ("t/+/b", ["t/a/b", "t//b"]),
        ("t/a/+", ["t/a/", "t/a/b"]),
        ("+/+/+", ["t/a/", "t/a/b", "t//b", "/t/a"]),
        ("+/a/#", ["t/a", "t/a/", "t/a/b", "t/a/b/c", "u/a", "tt/a"]),
        ("t/+/#", ["t/", "t/a", "t/a/", "t/a/b", "t/a/b/c", "t//b"]),
        ("+/+/+/+", ["t/a/b/c"]),
    ],
)
def test_matching(address: Address, version: int, topic_filter: str, matching: list[str]) -> None:
    """`+` matches one level, even an empty one; `#` any number of levels, even none."""
    base = unique("matching")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(f"{base}/{topic_filter}"))
        publisher.send(*[by_hand.publish(version, f"{base}/{topic}") for topic in TOPICS])
        assert topics(messages(client, publisher)) == [f"{base}/{topic}" for topic in matching]


def test_wildcards_alone(address: Address, version: int) -> None:
    """`#`, `+` and `+/+` are valid filters; `/x` has two levels."""
    one, two = unique("alone"), f"/{unique('alone')}"
    for topic_filter, matching in [("#", [one, two]), ("+", [one]), ("+/+", [two]), ("/+", [two])]:
        with connected(address, version) as client, connected(address, version) as publisher:
            subscribe(client, Subscription(topic_filter))
            publisher.send(by_hand.publish(version, one), by_hand.publish(version, two))
            found = topics(messages(client, publisher))
            assert [topic for topic in found if topic in (one, two)] == matching, topic_filter


@pytest.mark.parametrize("topic_filter", ["a#", "a/b#", "#/a", "a/#/b", "##", "a/##", "#/", "+#", "a/+#"])
def test_misplaced_multi_level_wildcard(address: Address, version: int, topic_filter: str) -> None:
    """`#` that is not a level of its own, or not the last, is refused."""
    check_refused(address, version, topic_filter)


@pytest.mark.parametrize("topic_filter", ["a+", "+a", "a/+b", "a/b+/c", "++", "a/++/b", "+a/#"])
def test_misplaced_single_level_wildcard(address: Address, version: int, topic_filter: str) -> None:
    """`+` that is not a level of its own is refused."""
    check_refused(address, version, topic_filter)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("topic", ["a/+", "a/#", "#", "+", "a+b", "a#b"])
def test_no_wildcards_in_topic_names(address: Address, version: int, topic: str, qos: int) -> None:
    """PUBLISH to a topic with a wildcard closes the connection."""
    packet_id = b"\0\1" if qos else b""
    properties = b"\0" if version == 5 else b""
    check_closes(
        address, version, by_hand.packet(0x30 | qos << 1, by_hand.string(topic) + packet_id + properties + b"x")
    )


# -- topics that begin with $


@pytest.mark.parametrize("topic_filter", ["#", "+/{0}", "+/#", "+/+"])
def test_leading_wildcards_and_dollar_topics(address: Address, version: int, topic_filter: str) -> None:
    """Filters that begin with a wildcard do not match `$...`; they match other topics."""
    name = unique("dollar")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic_filter.format(name)))
        publisher.send(by_hand.publish(version, f"$test/{name}"), by_hand.publish(version, f"test/{name}"))
        found = topics(messages(client, publisher))
        assert f"$test/{name}" not in found
        assert f"test/{name}" in found


@pytest.mark.parametrize("topic_filter", ["#", "+/#", "+/broker/#"])
def test_no_system_topics_unasked(address: Address, version: int, topic_filter: str) -> None:
    """Messages under `$SYS` do not match a filter that begins with a wildcard, retained or not."""
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic_filter))
        assert [topic for topic in topics(messages(client, publisher)) if topic.startswith("$")] == []


# -- names and filters


def test_empty_topic_name(address: Address, version: int) -> None:
    """PUBLISH with an empty topic (and no alias) closes the connection."""
    check_closes(address, version, by_hand.publish(version, "", b"x"))


def test_empty_topic_filter(address: Address, version: int) -> None:
    """An empty filter is refused."""
    check_refused(address, version, "")


def test_null_in_topic_name(address: Address, version: int) -> None:
    """PUBLISH to a topic with U+0000 closes the connection."""
    check_closes(address, version, by_hand.publish(version, "a\0b", b"x"))


def test_null_in_topic_filter(address: Address, version: int) -> None:
    """SUBSCRIBE and UNSUBSCRIBE with U+0000 in a filter close the connection."""
    check_closes(address, version, by_hand.subscribe(version, 1, [("a\0b", 0)]))
    check_closes(address, version, by_hand.unsubscribe(version, 1, ["a\0b"]))


def test_longest_topic(address: Address, version: int) -> None:
    """A topic of 65,535 bytes, the longest possible, is accepted."""
    topic = unique("long").ljust(65535, "x")
    with connected(address, version) as client:
        client.send(by_hand.subscribe(version, 1, [(topic, 0)]))
        assert client.expect(Suback).reason_codes == [0]
        client.send(by_hand.publish(version, topic, b"payload"))
        message = client.expect(Publish)
        assert (message.topic.decode(), message.payload) == (topic, b"payload")


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("a/b", "A/b"),
        ("a/b", "a/b "),
        ("a/b", "a//b"),
        ("a/b", "a/b/"),
        ("a/b", "/a/b"),
        ("a/b", "a/./b"),
        ("a/b", "a/%62"),
        ("a\N{LATIN SMALL LETTER E WITH ACUTE}", "ae\N{COMBINING ACUTE ACCENT}"),
        ("ab", "a\N{ZERO WIDTH NO-BREAK SPACE}b"),
        ("a1", "a\N{SUPERSCRIPT ONE}"),
        ("K", "\N{KELVIN SIGN}"),
        ("ss", "ß"),
    ],
)
def test_no_normalization(address: Address, version: int, one: str, another: str) -> None:
    """Topics are not normalized: a subscription gets only messages with the same characters."""
    base = unique("same")
    for wanted, other in [(one, another), (another, one)]:
        with connected(address, version) as client, connected(address, version) as publisher:
            subscribe(client, Subscription(f"{base}/{wanted}"))
            publisher.send(by_hand.publish(version, f"{base}/{other}"), by_hand.publish(version, f"{base}/{wanted}"))
            assert topics(messages(client, publisher)) == [f"{base}/{wanted}"]


@pytest.mark.parametrize("topic", ["/", "//", " ", "a b/c d", "\N{ZERO WIDTH NO-BREAK SPACE}", "\U0010abcd"])
def test_unusual_topics(address: Address, version: int, topic: str) -> None:
    """Topics of slashes, spaces and unusual characters are accepted like others [MQTT5 4.7.3]."""
    with connected(address, version) as client, connected(address, version) as publisher:
        client.send(Subscribe(client.packet_id(), [Subscription(topic)]))
        collect(client, lambda packet: isinstance(packet, Suback))
        publisher.send(by_hand.publish(version, topic, b"x"))
        assert topics(messages(client, publisher)) == [topic]
