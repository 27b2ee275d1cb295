"""The record of a message (FC-27)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage import message_record, records
from broker.storage.records import DamagedError
from broker.storage.saved import to_publish
from protocol import properties as props
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.publish_encoder import encode_identifiers

NUMBERS = st.integers(0, 2**32 - 1)
DELIVERIES = st.integers(-(2**63), 2**63 - 1)
LONG = st.integers(0, 2**64 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)


def body_of(record: bytes) -> bytes:
    """The body of the one record in these bytes."""
    ((kind, body),) = records.each(record, 0)
    assert kind == records.MESSAGE
    assert message_record.length_of(record[: records.HEAD_SIZE]) == len(body)
    return body


@given(
    LONG,
    st.booleans(),
    TEXTS | st.just(""),
    st.binary(max_size=100) | st.integers(120, 20_000).map(bytes),
    st.sampled_from(["", "short", "x" * 150, "x" * 20_000]),
    st.integers(0, 2),
    st.lists(st.tuples(NUMBERS, DELIVERIES)),
    NUMBERS,
    st.sampled_from([0, 1, 2**22]),
    st.booleans(),
)
def test_message(
    expires_at: int,
    retained: bool,
    publisher: str,
    payload: bytes,
    content_type: str,
    qos: int,
    deliveries: list[tuple[int, int]],
    group: int,
    flow: int,
    identified: bool,
) -> None:
    """A message comes back with its deliveries, and once more when it has been moved; a scan finds the same."""
    properties: Properties = {props.CONTENT_TYPE: content_type} if content_type else {}
    publish = Publish(b"a/b", payload, qos, retained, properties, packet_id=7 if qos else 0)
    own = Publish(b"a/b", payload, 1, True)
    own.identifiers = encode_identifiers([5]) if identified else b""
    own.flow = flow
    targets = [message_record.target(session, delivery, own, group) for session, delivery in deliveries]
    pieces: list[bytes] = []
    size = message_record.encode(pieces, publish, expires_at, retained, publisher, targets)
    written = b"".join(pieces)
    assert size == len(written)
    saved = message_record.read(body_of(written))
    assert saved[:3] == (expires_at, retained, publisher)
    assert [target[:2] for target in saved.targets] == deliveries
    assert {target[2:] for target in saved.targets} <= {(1, True, own.identifiers, group, flow)}
    back = to_publish(saved)
    assert (back.topic, back.payload, back.qos, back.retain) == (b"a/b", payload, qos, retained)
    assert (back.properties or {}) == properties
    assert body_of(message_record.moved(saved, retained, saved.targets)) == body_of(written)
    around = b"before" + written + b"after"
    scanned = message_record.scan(around, 6 + records.HEAD_SIZE, 6 + len(written))
    assert scanned[:3] == (retained, [(*target[:3], group, flow) for target in saved.targets], len(payload))
    assert around[scanned.topic_at : scanned.topic_end] == b"a/b"
    found = message_record.scan_plain(around, 6)
    assert found in {(0, 0, 0, 0, 0), (6 + len(written), *deliveries[-1:][0], 1, len(payload)) if deliveries else ()}


@given(NUMBERS, DELIVERIES, st.binary(max_size=100), st.integers(0, 2), st.booleans(), st.booleans())
def test_plain(session: int, delivery: int, payload: bytes, qos: int, retain: bool, identified: bool) -> None:
    """The quick scan finds what most messages have, and leaves others, and damaged ones, to the other one."""
    own = Publish(b"a/b", payload, qos, retain)
    own.identifiers = encode_identifiers([5]) if identified else b""
    own.flow = 7 if identified else 0
    targets = [message_record.target(session, delivery, own)]
    pieces: list[bytes] = []
    message_record.encode(pieces, Publish(b"a/b", payload, 2, retain), 0, False, "", targets)
    written = b"".join(pieces)
    found = message_record.scan_plain(b"before" + written + b"after", 6)
    assert found == (6 + len(written), session, delivery, qos, len(payload))
    for end in range(len(written)):
        assert message_record.scan_plain(written[:end], 0)[0] == 0
    for other in (records.ended(1) + bytes(30), written[:6] + b"\xff" + written[7:]):
        assert message_record.scan_plain(other, 0)[0] == 0


FLOWS = st.sampled_from([0, 1, 2**16, 2**22 - 1])
EACH = st.tuples(st.integers(0, 2**17), st.integers(1, 2), st.booleans(), FLOWS, st.booleans())


@given(NUMBERS, st.lists(EACH, min_size=2, max_size=8))
def test_deliveries_of_a_queue(session: int, deliveries: list[tuple[int, int, bool, int, bool]]) -> None:
    """FC-33: whatever came before it in its queue, a delivery is written as if it were the only one."""
    targets = message_record.Targets(session)
    for delivery, qos, retain, flow, identified in deliveries:
        publish = Publish(b"a/b", b"payload", qos, retain)
        publish.flow = flow
        publish.identifiers = encode_identifiers([5]) if identified else b""
        assert targets.encode(delivery, publish) == message_record.target(session, delivery, publish)


def test_not_a_message() -> None:
    """What is longer than its record, or no message at all, is noticed."""
    pieces: list[bytes] = []
    targets = [message_record.target(1, 2, Publish(b"", b""))]
    message_record.encode(pieces, Publish(b"a/b", b"", 1), 0, False, "", targets)
    body = body_of(b"".join(pieces))
    with pytest.raises(DamagedError, match="longer than its record"):
        message_record.read(body[:-1])
    for head in (b"", records.ended(1)[: records.HEAD_SIZE]):
        with pytest.raises(DamagedError, match="not where it was written"):
            message_record.length_of(head)
