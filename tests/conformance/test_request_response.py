"""Request and response (section 4.10 of 5.0, which has no numbered statement of its own)."""

from protocol import properties as props
from protocol.properties import Properties
from protocol.subscribe import Subscription
from tests.conformance.configured import Configured
from tests.conformance.delivery import messages, payloads, subscribe, unique
from tests.support.process import Address
from tests.support.wire import WireClient, connected

ASK: Properties = {props.REQUEST_RESPONSE_INFORMATION: 1}


def test_exchange(address: Address) -> None:
    """The responder gets the Response Topic, and the requester the Correlation Data of its request [MQTT5 4.10.1]."""
    requests, responses = unique("requests"), unique("responses")
    correlation = bytes(range(256))
    with connected(address, 5) as requester, connected(address, 5) as responder:
        subscribe(responder, Subscription(requests, 1))
        subscribe(requester, Subscription(responses, 1))
        asked: Properties = {props.RESPONSE_TOPIC: responses, props.CORRELATION_DATA: correlation}
        requester.publish(requests, b"question", 1, properties=asked)
        request = responder.receive_message()
        assert request.properties is not None
        answer_to = str(request.properties[props.RESPONSE_TOPIC])
        answer = {props.CORRELATION_DATA: request.properties[props.CORRELATION_DATA]}
        responder.publish(answer_to, b"answer", 1, properties=answer)
        response = requester.receive_message()
        assert response.properties is not None
        assert (response.topic.decode(), response.payload) == (responses, b"answer")
        assert response.properties[props.CORRELATION_DATA] == correlation
        assert props.RESPONSE_TOPIC not in response.properties


def test_pool_of_responders(address: Address) -> None:
    """Responders may share a subscription: one of them gets the request with its Response Topic [MQTT5 4.10.1]."""
    requests, responses = unique("requests"), unique("responses")
    with connected(address, 5) as requester, connected(address, 5) as one, connected(address, 5) as two:
        for responder in (one, two):
            subscribe(responder, Subscription(f"$share/pool/{requests}", 1))
        requester.publish(requests, b"question", 1, properties={props.RESPONSE_TOPIC: responses})
        found = messages(one, requester, 1) + messages(two, requester, 1)
        assert payloads(found) == [b"question"]
        assert found[0].properties is not None
        assert found[0].properties[props.RESPONSE_TOPIC] == responses


def test_response_without_subscriber(address: Address) -> None:
    """A response without a subscriber is delivered to nobody [MQTT5 4.10.1]."""
    responses = unique("responses")
    with connected(address, 5) as responder, connected(address, 5) as requester:
        responder.publish(responses, b"too early", 1, properties={props.CORRELATION_DATA: b"1"})
        subscribe(requester, Subscription(responses))
        assert messages(requester, responder) == []


def test_response_information(configured: Configured) -> None:
    """A client that requests Response Information gets a topic, below which it can use topics [MQTT5 4.10.2]."""
    address = configured(mqtt={"response_information": "responses/{client_id}"})
    client_id = unique("client")
    with WireClient(address, 5) as requester, connected(address, 5) as responder:
        connack = requester.connect(client_id, properties=ASK)
        assert connack.properties is not None
        information = str(connack.properties[props.RESPONSE_INFORMATION])
        assert information == f"responses/{client_id}"
        subscribe(requester, Subscription(f"{information}/#"))
        responder.publish(f"{information}/1", b"answer")
        assert requester.receive_message().payload == b"answer"


def test_response_information_unasked(configured: Configured) -> None:
    """A client that does not request Response Information, or sends 0, does not get it [MQTT5 3.1.2.11.6]."""
    address = configured(mqtt={"response_information": "responses/{client_id}"})
    unasked: list[Properties | None] = [None, {props.REQUEST_RESPONSE_INFORMATION: 0}]
    for asked in unasked:
        with WireClient(address, 5) as client:
            connack = client.connect(properties=asked)
            assert props.RESPONSE_INFORMATION not in (connack.properties or {})
