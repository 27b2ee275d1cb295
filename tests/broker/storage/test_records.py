"""The records of the journal (FC-27)."""

from hypothesis import given
from hypothesis import strategies as st

from broker.storage import records
from protocol import properties as props
from protocol.decoder import Decoder
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.publish_encoder import encode_identifiers
from protocol.subscribe import Subscription

NUMBERS = st.integers(0, 2**32 - 1)
LONG = st.integers(0, 2**64 - 1)
PACKET_IDS = st.integers(1, 65_535)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)


def only(record: bytes, kind: int) -> bytes:
    """The body of the one record in these bytes."""
    ((found, body),) = records.each(record, 0)
    assert found == kind
    return body


@given(
    LONG,
    LONG,
    st.booleans(),
    TEXTS,
    st.binary(max_size=100) | st.integers(120, 20_000).map(bytes),
    st.sampled_from(["", "short", "x" * 150, "x" * 20_000]),
    st.integers(0, 2),
    st.lists(st.tuples(NUMBERS, LONG)),
)
def test_message(
    number: int,
    expires_at: int,
    retained: bool,
    publisher: str,
    payload: bytes,
    content_type: str,
    qos: int,
    deliveries: list[tuple[int, int]],
) -> None:
    """A message comes back with its deliveries, and once more when it has been moved; a scan finds the same."""
    properties: Properties = {props.CONTENT_TYPE: content_type} if content_type else {}
    publish = Publish(b"a/b", payload, qos, retained, properties, packet_id=7 if qos else 0)
    own = Publish(b"a/b", payload, 1, True)
    own.identifiers = encode_identifiers([5])
    targets = [records.target(session, delivery, own) for session, delivery in deliveries]
    written = b"".join(records.message(number, publish, expires_at, retained, publisher, targets))
    saved = records.read_message(only(written, records.MESSAGE))
    assert saved[:4] == (number, expires_at, retained, publisher)
    assert [target[:2] for target in saved.targets] == deliveries
    assert {target[2:] for target in saved.targets} <= {(1, True, own.identifiers)}
    decoder = Decoder(version=5)
    decoder.feed(saved.packet)
    back = decoder.next_packet()
    assert isinstance(back, Publish)
    assert (back.topic, back.payload, back.qos, back.retain) == (b"a/b", payload, qos, retained)
    assert only(records.moved(saved, retained, saved.targets), records.MESSAGE) == only(written, records.MESSAGE)
    assert records.message_number(only(written, records.MESSAGE)) == number
    scanned = records.scan_message(b"before" + written + b"after", 6 + records.HEAD_SIZE, 6 + len(written))
    assert scanned == (number, retained, [(*each, 1) for each in deliveries], len(payload))


@given(NUMBERS, st.integers(0, 255), NUMBERS, LONG, TEXTS)
def test_session(number: int, version: int, expiry: int, following: int, client_id: str) -> None:
    """What is said of a session comes back."""
    written = records.session(number, client_id, version, expiry, following)
    back = records.read_session(only(written, records.SESSION))
    assert back == (number, version, expiry, following, client_id)
    written = records.connected(number, version, expiry)
    assert records.read_connected(only(written, records.CONNECTED)) == (number, version, expiry)
    written = records.detached(number, following, expiry, version > 100)
    assert records.read_detached(only(written, records.DETACHED)) == (number, following, expiry, version > 100)
    assert records.read_ended(only(records.ended(number), records.ENDED)) == number
    written = records.group(number, client_id, following)
    assert records.read_group(only(written, records.GROUP)) == (number, following, client_id)


@given(NUMBERS, TEXTS, st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 2), st.booleans())
def test_subscription(
    number: int, name: str, qos: int, no_local: bool, as_published: bool, handling: int, identified: bool
) -> None:
    """A subscription comes back with its options and identifier."""
    subscription = Subscription(name, qos, no_local, as_published, handling)
    subscription.identifiers = encode_identifiers([300]) if identified else b""
    back_number, back = records.read_subscribed(only(records.subscribed(number, subscription), records.SUBSCRIBED))
    assert back_number == number
    assert (back.topic_filter, back.options(5), back.identifiers) == (
        name,
        subscription.options(5),
        subscription.identifiers,
    )
    written = records.unsubscribed(number, name)
    assert records.read_unsubscribed(only(written, records.UNSUBSCRIBED)) == (number, name)


@given(NUMBERS, LONG, PACKET_IDS, st.lists(LONG, max_size=20))
def test_deliveries(number: int, delivery: int, packet_id: int, deliveries: list[int]) -> None:
    """What is said of deliveries and packet ids comes back."""
    written = records.sent(number, delivery, packet_id)
    assert records.read_sent(only(written, records.SENT)) == (number, delivery, packet_id)
    assert records.read_received(only(records.received(number, delivery), records.RECEIVED)) == (number, delivery)
    back, ranges = records.read_done(only(records.done(number, deliveries[:1]), records.DONE))
    assert (back, ranges) == (number, [(each, 1) for each in deliveries[:1]])
    written = records.remembered(number, packet_id)
    assert records.read_packet_id(only(written, records.REMEMBERED)) == (number, packet_id)
    written = records.forgotten(number, packet_id)
    assert records.read_packet_id(only(written, records.FORGOTTEN)) == (number, packet_id)


@given(NUMBERS, NUMBERS, st.binary(max_size=50), st.integers(0, 2))
def test_will(number: int, delay: int, payload: bytes, qos: int) -> None:
    """A will comes back as the PUBLISH that it is."""
    written = records.will(number, Publish(b"gone", payload, qos), delay)
    back_number, back_delay, packet = records.read_will(only(written, records.WILL))
    assert (back_number, back_delay) == (number, delay)
    assert records.saved_will(number, packet, delay) == written
