"""FC-24a: what a delivery costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import properties as props
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.publish_encoder import encode_identifiers
from session.address import Address, AddressRule
from session.cost import OVERHEAD, PAIR, cost
from session.holder import hold, release

PAIRS = st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=1, max_size=3)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        props.MESSAGE_EXPIRY_INTERVAL: st.integers(0, 2**32 - 1),
        props.RESPONSE_TOPIC: st.text(max_size=9),
        props.CORRELATION_DATA: st.binary(max_size=9),
        props.USER_PROPERTY: PAIRS,
    },
)


@pytest.mark.parametrize(
    ("topic", "payload", "properties", "more"),
    [
        (b"t", b"", None, 1),
        (b"topic", bytes(16), None, 21),
        (b"t", b"", {props.MESSAGE_EXPIRY_INTERVAL: 5}, 1),
        (b"t", b"", {props.RESPONSE_TOPIC: "r" * 40, props.CORRELATION_DATA: bytes(30)}, 71),
        (b"t", b"", {props.USER_PROPERTY: [("name", ""), ("b", "cd")]}, 1 + 2 * PAIR + 7),
    ],
)
def test_cost(topic: bytes, payload: bytes, properties: Properties | None, more: int) -> None:
    """FC-24a: payload, topic, properties and a fixed overhead."""
    assert cost(Publish(topic, payload, 1, properties=properties)) == OVERHEAD + more


@given(st.integers(0, 2), st.booleans(), st.binary(max_size=9), st.none() | PROPERTIES)
def test_the_same_for_each_form(qos: int, retain: bool, payload: bytes, properties: Properties | None) -> None:
    """FC-24a: a delivery releases what it has held in whatever form: QoS, RETAIN, identifiers, copies, frames."""
    address = Address(b"t", AddressRule(1))
    publish = Publish(b"t", payload, 2, True, properties)
    publish.holder = address
    own = publish.at(qos, retain).identified(encode_identifiers([3]))
    hold(publish)
    assert address.size == cost(publish)
    release(own)
    assert address.size == 0
    hold(own)
    own.build5()
    own.delivery(b"", b"", 1)
    own.forget_frames()
    release(own.copy())
    assert address.size == 0
