"""What a trace reads of a packet at a glance is what decoding it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.admin.trace.framing import packet_id_of, topic_of
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.publish import Publish

pytestmark = pytest.mark.once


@given(
    topic=st.text("ab/ü", min_size=1, max_size=200),
    payload=st.binary(max_size=300),
    qos=st.integers(0, 2),
    version=st.sampled_from([4, 5]),
)
def test_topic_at_a_glance(topic: str, payload: bytes, qos: int, version: int) -> None:
    """The topic is read without the rest, or the packet is left to the decoder; that also has to see every alias."""
    packet = Publish(topic.encode(), payload, qos, packet_id=7 if qos else 0).encode(version)
    found = topic_of(packet)
    assert found in (None, topic.encode())
    assert found is not None or version == 4
    aliased = Publish(topic.encode(), payload, qos, packet_id=7 if qos else 0, properties={props.TOPIC_ALIAS: 1})
    assert topic_of(aliased.encode(5)) is None


@pytest.mark.parametrize("kind", [Puback, Pubrec, Pubrel, Pubcomp])
@pytest.mark.parametrize("version", [4, 5])
def test_packet_id_at_a_glance(kind: type[Puback], version: int) -> None:
    """Every acknowledgement has its packet id at the same place, unless a long reason moves it."""
    assert packet_id_of(kind(4711).encode(version)) == 4711
    assert packet_id_of(kind(4711, 0, {props.REASON_STRING: "x" * 200}).encode(5)) is None
