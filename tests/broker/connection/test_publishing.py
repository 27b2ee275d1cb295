"""A PUBLISH that routing refuses leaves no trace in the session."""

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Pubrec
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient, connected


def test_refused_qos2_is_not_remembered(broker: BrokerProcess) -> None:
    """FC-21: the packet id of a QoS 2 PUBLISH with too many levels is free after a resume: the next is delivered."""
    kept: Properties = {props.SESSION_EXPIRY_INTERVAL: 60}
    with connected(broker.address(), 5) as subscriber:
        subscriber.subscribe("refused/#", qos=0)
        with WireClient(broker.address(), 5) as client:
            client.connect("refused-qos2", properties=kept)
            client.send(Publish(b"/".join([b"a"] * 300), b"", 2, packet_id=7))
            goodbye = client.expect_close()
            assert isinstance(goodbye, Disconnect)
            assert goodbye.reason_code == reason_codes.TOPIC_NAME_INVALID
        with WireClient(broker.address(), 5) as client:
            assert client.connect("refused-qos2", clean_start=False).session_present
            client.send(Publish(b"refused/ok", b"here", 2, packet_id=7))
            assert client.expect(Pubrec).reason_code == reason_codes.SUCCESS
        assert subscriber.expect(Publish).payload == b"here"
