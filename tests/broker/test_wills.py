"""Wills: when they are published, and when they are not."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from config.models import Config
from protocol import properties as props
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.broker.collecting import collect
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.stored import KEPT, broker_on, on_disk, say
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

Start = Callable[..., BrokerProcess]


def malformed(client: WireClient) -> None:
    """Send what no client may send."""
    client.send(b"\x00\x00")


ENDINGS: dict[str, Callable[[WireClient], None]] = {
    "closed": WireClient.close,
    "reset": WireClient.reset,
    "malformed": malformed,
    "half closed": lambda client: client.socket.shutdown(1),
}


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("ending", ENDINGS)
def test_published(address: Address, ending: str, version: int) -> None:
    """The will of a connection that ends without DISCONNECT is published [MQTT-3.1.2-8]."""
    topic = f"will/{ending}/{version}"
    with connected(address, 5) as watcher, WireClient(address, version) as client:
        watcher.subscribe("will/#", qos=2)
        client.connect(will=Will(topic.encode(), b"gone", 2, False, None))
        ENDINGS[ending](client)
        message = watcher.receive_message()
        assert (message.topic.decode(), message.payload, message.qos, message.retain) == (topic, b"gone", 2, False)


def test_keepalive(address: Address) -> None:
    """The will of a client whose keep-alive has ended is published."""
    with connected(address, 5) as watcher, WireClient(address, 4) as client:
        watcher.subscribe("will/silent")
        client.connect(keep_alive=1, will=Will(b"will/silent", b"gone", 0, False, None))
        assert watcher.receive_message().payload == b"gone"


@pytest.mark.parametrize("version", [4, 5])
def test_not_after_disconnect(address: Address, version: int) -> None:
    """DISCONNECT cancels the will [MQTT-3.14.4-3]."""
    with connected(address, 5) as watcher, WireClient(address, version) as client:
        watcher.subscribe("will/none")
        client.connect(will=Will(b"will/none", b"gone", 0, False, None))
        client.send(Disconnect())
        client.expect_close()
        assert collect(watcher) == []


def test_disconnect_with_will(address: Address) -> None:
    """A DISCONNECT with 0x04 of MQTT 5 publishes the will."""
    with connected(address, 5) as watcher, WireClient(address, 5) as client:
        watcher.subscribe("will/leave")
        client.connect(will=Will(b"will/leave", b"gone", 0, False, None))
        client.disconnect(0x04)
        assert watcher.receive_message().payload == b"gone"


@pytest.mark.parametrize("retain", [False, True])
def test_properties_and_retain(address: Address, retain: bool) -> None:
    """A will is published with its properties except the delay, and retained if it has RETAIN [MQTT-3.1.2-14, -15]."""
    properties: Properties = {
        props.WILL_DELAY_INTERVAL: 1,
        props.CONTENT_TYPE: "text/plain",
        props.MESSAGE_EXPIRY_INTERVAL: 50,
        props.USER_PROPERTY: [("b", "1"), ("a", "2")],
        props.CORRELATION_DATA: b"1",
        props.RESPONSE_TOPIC: "r",
        props.PAYLOAD_FORMAT_INDICATOR: 1,
    }
    expected = {key: value for key, value in properties.items() if key != props.WILL_DELAY_INTERVAL}
    topic = f"will/properties/{retain}"
    with connected(address, 5) as watcher, WireClient(address, 5) as client:
        watcher.subscribe(topic)
        will = Will(topic.encode(), b"gone", 1, retain, dict(properties))
        client.connect("willing", will=will, properties={props.SESSION_EXPIRY_INTERVAL: 9})
        client.reset()
        message = watcher.receive_message()
        assert (message.payload, message.properties, message.retain) == (b"gone", expected, False)
        with connected(address, 5) as late:
            late.subscribe(topic, qos=1)
            kept = collect(late)
        assert [(message.payload, message.retain, message.qos) for message in kept] == [(b"gone", True, 1)] * retain
        watcher.publish(topic, b"", 1, retain=True)


def test_cancelled_by_coming_back(address: Address) -> None:
    """A reconnect before the delay is over cancels the will [MQTT-3.1.3-9]."""
    delayed = Will(b"will/back", b"first", 0, False, {props.WILL_DELAY_INTERVAL: 1})
    later = Will(b"will/back", b"second", 0, False, {props.WILL_DELAY_INTERVAL: 2})
    with connected(address, 5) as watcher:
        watcher.subscribe("will/back")
        for will in (delayed, later):
            with WireClient(address, 5) as client:
                client.connect(
                    "coming-back", clean_start=False, will=will, properties={props.SESSION_EXPIRY_INTERVAL: 60}
                )
                client.reset()
        assert watcher.receive_message().payload == b"second"


def test_to_a_session_that_is_away(address: Address) -> None:
    """A will is queued for offline sessions as any message."""
    with WireClient(address, 4) as away:
        away.connect("away", clean_start=False)
        away.subscribe("will/away", qos=1)
        away.disconnect()
    with WireClient(address, 5) as client:
        client.connect(will=Will(b"will/away", b"gone", 1, False, None))
    with WireClient(address, 4) as away:
        assert away.connect("away", clean_start=False).session_present
        assert away.receive_message().payload == b"gone"
    connected(address, 4, client_id="away").disconnect()


def test_at_a_stop(start: Start) -> None:
    """A broker that stops publishes the wills of the clients that it disconnects to those still connected."""
    with start() as broker, connected(broker.address(), 4) as keeper:
        keeper.subscribe("will/#")
        with WireClient(broker.address(), 5) as client:
            client.connect(will=Will(b"will/stop", b"gone", 0, False, None))
            broker.ask_to_end()
            client.expect_close()
        last = keeper.expect_close()
        assert last is None or isinstance(last, Publish)


DENIED = {"authorization": {"deny_publish": ["x/#"]}}
DEEP: dict[str, Any] = {"mqtt": {"max_topic_levels": 1}}
RULES = {"authorization": {"rules": [{"permit": "deny", "topics": ["#"]}]}}


def reload(local: LocalBroker, **sections: Any) -> None:
    """Have the broker follow this configuration instead of an empty one."""
    local.complete(local.broker.use(Config.model_validate(sections), Config.model_validate({})))


def willing(local: LocalBroker, client_id: str, delay: int = 0) -> LocalClient:
    """A client with a will on x/y, and a session that is kept."""
    client = local.client()
    will = Will(b"x/y", b"gone", 1, False, {props.WILL_DELAY_INTERVAL: delay})
    client.connect(client_id, will=will, properties=KEPT)
    return client


def dropped(logged: list[Any]) -> list[tuple[str, str]]:
    """The wills that were dropped: whose, and why."""
    return [(line["client_id"], line["reason"]) for line in logged if line["event"] == "will_dropped"]


@pytest.mark.parametrize("sections", [DENIED, RULES], ids=["denied topic", "rules"])
def test_take_over_when_the_will_is_denied_by_now(sections: dict[str, Any]) -> None:
    """A client takes its session over although its old will may not be published: that one is dropped and logged."""
    with LocalBroker() as local, capture_logs() as logged:
        older = willing(local, "w")
        reload(local, **sections)
        assert local.client().connect("w", clean_start=False).session_present
        assert older.transport.closed
        assert dropped(logged) == [("w", "Not authorized")]
        assert local.broker.clients.by_id["w"].session.counters.begin_uncommon().publish_refused == 1


def test_delayed_will_is_denied_by_now() -> None:
    """A delayed will that may not be published when it is due holds up no other timer."""
    with LocalBroker() as local, capture_logs() as logged:
        willing(local, "w", 30).drop()
        other = local.client()
        other.connect("other", keep_alive=30)
        reload(local, **DENIED)
        local.pass_time(50)
        assert dropped(logged) == [("w", "Not authorized")]
        assert other.gone


def test_reload_with_wills_that_it_denies() -> None:
    """New rules reach all clients, also those behind one that is disconnected for them and whose will is denied too."""
    allowed = [{"permit": "allow", "topics": ["x/#"]}]
    with LocalBroker() as local:
        members = [willing(local, str(number)) for number in range(3)]
        for member in members:
            member.subscribe("$share/group/a")
        reload(local, authorization={**DENIED["authorization"], "rules": allowed, "default": "deny"})
        assert [member.transport.closed for member in members] == [True] * 3


@pytest.mark.parametrize("sections", [DENIED, DEEP], ids=["denied topic", "too many levels"])
def test_start_with_a_will_that_is_denied_by_now(tmp_path: Path, sections: dict[str, Any]) -> None:
    """A broker starts on a journal with an expired session whose will its configuration does not permit any more."""
    will = Will(b"x/y", b"gone", 1, False, {props.WILL_DELAY_INTERVAL: 1})
    expiry: Properties = {props.SESSION_EXPIRY_INTERVAL: 1}
    with broker_on(tmp_path) as (local, storage):
        client = local.client()
        say(local, storage, client, Connect("w", False, 0, will=will, properties=expiry, version=5))
        client.drop()
        on_disk(local, storage)
        left = time.time()
    wait_until(lambda: time.time() > left + 1.1, "a second has passed")
    with capture_logs() as logged, broker_on(tmp_path, **sections) as (local, _):
        assert len(local.broker.clients) == 0
        local.pass_time(9)
    assert [client_id for client_id, _ in dropped(logged)] == ["w"]
