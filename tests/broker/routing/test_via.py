"""The path in a message that tells loops of brokers."""

import pytest

from broker.routing.via import MOST_BROKERS, NAME, Via, broker_id
from protocol import properties as props
from protocol.decoder import Decoder
from protocol.properties import Properties
from protocol.publish import Publish
from session.flows import KEPT, from_broker

OWN = "0123abcd"
VIA = Via()
VIA.broker_id = OWN


@pytest.mark.parametrize(
    ("pairs", "is_loop"),
    [
        ([("other", OWN)], False),
        ([(NAME, "aa,bb")], False),
        ([("other", "x"), (NAME, f"aa,{OWN},bb")], True),
        ([(NAME, ",".join(["aa"] * (MOST_BROKERS - 1)))], False),
        ([(NAME, ",".join(["aa"] * MOST_BROKERS))], True),
    ],
)
def test_a_path_with_this_broker_is_a_loop(pairs: list[tuple[str, str]], is_loop: bool) -> None:
    """So is one through too many brokers, whoever they are."""
    assert VIA.is_loop({props.USER_PROPERTY: pairs}) == is_loop


def test_a_message_without_a_path_is_no_loop() -> None:
    """Most messages have none."""
    assert not VIA.is_loop({})


def sent_on(publish: Publish, known: bool) -> Publish:
    """A message as the next broker reads it; `known`: whether that one knows who sends."""
    sent = VIA.extended(publish, publish.topic, publish.properties, known)
    packet = sent.build5() + (b"\0\7" + (sent.rest5 or b"") if sent.qos else b"")
    decoder = Decoder(version=5)
    decoder.feed(packet)
    got = decoder.next_packet()
    assert isinstance(got, Publish)
    return got


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize(
    ("flow", "known", "before", "path"),
    [
        (0, True, [], ""),
        (0, False, [], OWN),
        (from_broker(0, 0xAB), True, [], f"000000ab,{OWN}"),
        (from_broker(0, 0xAB) & KEPT, True, [], OWN),
        (0, True, [(NAME, "aa")], f"aa,{OWN}"),
        (from_broker(5, 0xAB), True, [(NAME, "aa,000000ab")], f"aa,000000ab,{OWN}"),
    ],
)
def test_the_path_grows_by_this_broker(
    qos: int, flow: int, known: bool, before: list[tuple[str, str]], path: str
) -> None:
    """It begins with the broker that sent it here, or with this one where the next does not know who that is."""
    properties: Properties = {props.USER_PROPERTY: [("a", "1"), *before, ("b", "2")], props.CONTENT_TYPE: "x"}
    publish = Publish(b"t", b"payload", qos, True, properties)
    publish.flow = flow
    got = sent_on(publish, known)
    assert (got.topic, got.payload, got.qos, got.retain) == (b"t", b"payload", qos, True)
    assert got.properties is not None
    assert got.properties[props.CONTENT_TYPE] == "x"
    pairs = got.properties[props.USER_PROPERTY]
    assert pairs == [("a", "1"), ("b", "2")] + ([(NAME, path)] if path else [])


def test_what_needs_no_path_is_not_copied() -> None:
    """A message of a client here, to a broker that knows this one, goes out in the frames that it has."""
    publish = Publish(b"t", b"payload")
    assert VIA.rewritten(publish) is publish


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, -1), ("0000001f", 0x1F), (OWN, int(OWN, 16)), ("x", 0), ("-000001f", 0), ("0x00001f", 0), ("1f", 0)],
)
def test_who_says_that_it_is_a_broker(value: str | None, expected: int) -> None:
    """What is no id is a broker that is not known."""
    pairs = [("other", "y")] if value is None else [("other", "y"), (NAME, value)]
    assert broker_id({props.USER_PROPERTY: pairs}) == expected
