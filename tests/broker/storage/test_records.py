"""The records of the journal (FC-27)."""

from hypothesis import given
from hypothesis import strategies as st

from broker.storage import records
from broker.storage.owner import Owner
from protocol.publish import Publish
from protocol.publish_encoder import encode_identifiers
from protocol.subscribe import Subscription

NUMBERS = st.integers(0, 2**32 - 1)
DELIVERIES = st.integers(-(2**63), 2**63 - 1)
LONG = st.integers(0, 2**64 - 1)
PACKET_IDS = st.integers(1, 65_535)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)


def only(record: bytes, kind: int) -> bytes:
    """The body of the one record in these bytes."""
    ((found, body),) = records.each(record, 0)
    assert found == kind
    return body


@given(NUMBERS, st.integers(0, 255), NUMBERS, LONG, TEXTS)
def test_session(number: int, version: int, expiry: int, following: int, client_id: str) -> None:
    """The record of a session is read as it was written."""
    written = records.session(number, client_id, version, expiry, following)
    back = records.read_session(only(written, records.SESSION))
    assert back == (number, version, expiry, following, client_id)
    written = records.connected(number, version, expiry)
    assert records.read_connected(only(written, records.CONNECTED)) == (number, version, expiry)
    written = records.detached(number, following, expiry, version > 100)
    assert records.read_detached(only(written, records.DETACHED)) == (number, following, expiry, version > 100)
    assert records.read_ended(only(records.ended(number), records.ENDED)) == number
    assert records.read_clock(only(records.clock(number - 2**31), records.CLOCK)) == number - 2**31
    written = records.group(number, client_id, following)
    assert records.read_group(only(written, records.GROUP)) == (number, following, client_id)


@given(NUMBERS, st.none() | TEXTS | st.just(""), st.frozensets(TEXTS | st.just(""), max_size=3), TEXTS, TEXTS)
def test_owner(number: int, user: str | None, roles: frozenset[str], host: str, listener: str) -> None:
    """The record of a session's owner is read as it was written; no user name is not an empty one."""
    owner = Owner(user, roles, host, listener)
    assert records.read_owner(only(records.owner(number, owner), records.OWNER)) == (number, owner)


@given(NUMBERS, TEXTS, st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 2), st.booleans(), st.binary())
def test_subscription(
    number: int, name: str, qos: int, no_local: bool, as_published: bool, handling: int, identified: bool, topic: bytes
) -> None:
    """The record of a subscription has its options and identifier, and that of what it waits for its topic."""
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
    assert records.read_unsubscribed(only(records.paid(number, name), records.PAID)) == (number, name)
    assert records.read_owed(only(records.owed(number, name, topic), records.OWED)) == (number, name, topic)


@given(NUMBERS, DELIVERIES, PACKET_IDS, st.lists(DELIVERIES, max_size=20))
def test_deliveries(number: int, delivery: int, packet_id: int, deliveries: list[int]) -> None:
    """The records of deliveries and packet ids are read as they were written."""
    written = records.sent(number, [(delivery, packet_id)])
    assert records.read_sent(only(written, records.SENT)) == (number, [(delivery, packet_id, 1)])
    assert records.read_received(only(records.received(number, delivery), records.RECEIVED)) == (number, delivery)
    back, ranges = records.read_done(only(records.done(number, deliveries[:1]), records.DONE))
    assert (back, ranges) == (number, [(each, 1) for each in deliveries[:1]])
    written = records.remembered(number, packet_id)
    assert records.read_packet_id(only(written, records.REMEMBERED)) == (number, packet_id)
    written = records.forgotten(number, packet_id)
    assert records.read_packet_id(only(written, records.FORGOTTEN)) == (number, packet_id)


@given(st.lists(st.tuples(st.integers(-5, 2**32), PACKET_IDS), unique_by=lambda each: each[0]), st.integers(0, 50))
def test_sent(deliveries: list[tuple[int, int]], following: int) -> None:
    """Each delivery comes back with its packet id, in the order of sending; those in a row share a range."""
    last, packet_id = deliveries[-1] if deliveries else (0, 1)
    row = [(last + 1 + each, packet_id + 1 + each) for each in range(min(following, 65_535 - packet_id))]
    _, ranges = records.read_sent(only(records.sent(1, deliveries + row), records.SENT))
    back = [(first + each, own + each) for first, own, count in ranges for each in range(count)]
    assert back == deliveries + row
    assert len(ranges) <= len(deliveries) + 1


@given(NUMBERS, NUMBERS, st.binary(max_size=50), st.integers(0, 2))
def test_will(number: int, delay: int, payload: bytes, qos: int) -> None:
    """The record of a will is read as a PUBLISH."""
    written = records.will(number, Publish(b"gone", payload, qos), delay)
    back_number, back_delay, packet = records.read_will(only(written, records.WILL))
    assert (back_number, back_delay) == (number, delay)
    assert records.saved_will(number, packet, delay) == written
