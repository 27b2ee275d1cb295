"""Topic names and filters: validity, matching, shared subscriptions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from protocol.errors import MalformedPacket, ProtocolError
from protocol.topics import matches, parse_share, validate_topic_filter, validate_topic_name
from tests.support.protocol.strategies import topic_filters, topics

WORDS = st.sampled_from(["a", "b", "", "$x"])


@pytest.mark.parametrize("topic", ["a", "/", "a//b", "$SYS/x", " ", "a/ü/€", "\ufeff", "x" * 65_535])
def test_valid_names(topic: str) -> None:
    """A topic name may have any character except wildcards and U+0000, and empty levels."""
    validate_topic_name(topic.encode())
    validate_topic_filter(topic)
    validate_topic_filter(topic.encode())


@pytest.mark.parametrize("topic", [b"+", b"a/+", b"#", b"a#b"])
def test_names_with_wildcards(topic: bytes) -> None:
    """A topic name with a wildcard is malformed [MQTT-3.3.2-2]."""
    with pytest.raises(MalformedPacket, match="PUBLISH topic name"):
        validate_topic_name(topic)


def test_empty_name() -> None:
    """An empty topic name is a protocol error [MQTT-4.7.3-1] (section 3.3.2.1 of MQTT 5)."""
    with pytest.raises(ProtocolError, match="PUBLISH topic name"):
        validate_topic_name(b"")


@pytest.mark.parametrize("topic", [b"\xff", b"a\0", b"\xed\xa0\x80"])
def test_names_that_are_no_text(topic: bytes) -> None:
    """A topic name that is not valid UTF-8 is malformed [MQTT-3.3.2-1]."""
    with pytest.raises(MalformedPacket, match="here"):
        validate_topic_name(topic, "here")


@pytest.mark.parametrize("topic_filter", ["#", "+", "+/+", "/#", "a/+/#", "+/a/+", "/", "$SYS/#"])
def test_valid_filters(topic_filter: str) -> None:
    """A wildcard is a level of its own, and '#' is the last level."""
    validate_topic_filter(topic_filter)


@pytest.mark.parametrize("topic_filter", ["", "a#", "#/a", "a/#/b", "##", "a+", "+a/b", "a/++", "a/b+/c"])
def test_invalid_filters(topic_filter: str) -> None:
    """A wildcard beside other characters, or '#' before the end, is refused [MQTT-4.7.1-1] [MQTT-4.7.1-2]."""
    with pytest.raises(MalformedPacket, match="topic filter"):
        validate_topic_filter(topic_filter)


@pytest.mark.parametrize(
    ("topic_filter", "topic", "expected"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("#", "a/b", True),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("#", "$SYS/monitor", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/monitor", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("a", "A", False),
        ("a/b", "a", False),
        ("a", "a/b", False),
    ],
)
def test_examples_of_the_standard(topic_filter: str, topic: str, expected: bool) -> None:
    """The examples of section 4.7 have the results given there."""
    assert matches(topic_filter, topic) is expected


@given(st.lists(WORDS | st.just("+"), min_size=1, max_size=4), st.booleans(), st.lists(WORDS, min_size=1, max_size=4))
def test_matching_agrees_with_paho(filter_levels: list[str], multi: bool, topic_levels: list[str]) -> None:
    """For similar filters and topics, our matcher and paho's give the same result."""
    topic_filter = "/".join([*filter_levels, "#"] if multi else filter_levels) or "a"
    topic = "/".join(topic_levels) or "a"
    assert matches(topic_filter, topic) == topic_matches_sub(topic_filter, topic)


@given(topic_filters(), topics)
def test_generated_topics_are_valid(topic_filter: str, topic: str) -> None:
    """The topics that the strategies generate are valid, and each matches itself."""
    validate_topic_filter(topic_filter)
    validate_topic_name(topic.encode())
    assert matches(topic, topic)


@pytest.mark.parametrize(
    ("topic_filter", "expected"),
    [
        ("$share/g/a/b", ("g", "a/b")),
        ("$share/g/#", ("g", "#")),
        ("$share/g//", ("g", "/")),
        ("$share", None),
        ("$shared/g/a", None),
        ("a/$share/g", None),
    ],
)
def test_shared_subscriptions(topic_filter: str, expected: tuple[str, str] | None) -> None:
    """A shared subscription is split into its group and its filter; others are none."""
    assert parse_share(topic_filter) == expected


@pytest.mark.parametrize("topic_filter", ["$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a", "$share/g#/a"])
def test_malformed_shared_subscriptions(topic_filter: str) -> None:
    """A share name is not empty, has no wildcard and is followed by a filter [MQTT-4.8.2-1] [MQTT-4.8.2-2]."""
    with pytest.raises(MalformedPacket):
        parse_share(topic_filter)
