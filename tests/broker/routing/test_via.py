"""The path in a message that tells loops of brokers."""

import pytest

from broker.routing.via import MOST_BROKERS, NAME, Via
from protocol import properties as props
from protocol.decoder import Decoder
from protocol.properties import Properties
from protocol.publish import Publish

VIA = Via()
OWN = VIA.broker_id


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


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, [(NAME, OWN)]),
        ([("a", "1")], [("a", "1"), (NAME, OWN)]),
        ([("a", "1"), (NAME, "aa"), ("b", "2")], [("a", "1"), (NAME, f"aa,{OWN}"), ("b", "2")]),
    ],
)
def test_the_path_grows_by_this_broker(
    qos: int, before: list[tuple[str, str]] | None, after: list[tuple[str, str]]
) -> None:
    """All else of the message stays as it is."""
    properties: Properties | None = None if before is None else {props.USER_PROPERTY: before, props.CONTENT_TYPE: "x"}
    sent = VIA.rewritten(Publish(b"t", b"payload", qos, True, properties))
    packet = sent.build5() + (b"\0\7" + (sent.rest5 or b"") if qos else b"")
    decoder = Decoder(version=5)
    decoder.feed(packet)
    got = decoder.next_packet()
    assert isinstance(got, Publish)
    assert (got.topic, got.payload, got.qos, got.retain) == (b"t", b"payload", qos, True)
    assert got.properties == ({} if before is None else {props.CONTENT_TYPE: "x"}) | {props.USER_PROPERTY: after}
