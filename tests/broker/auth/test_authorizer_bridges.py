"""Rules about the state of a bridge's own connection, which only bridges of MQTT 3.1.1 may publish without a rule."""

from typing import Any

import pytest

from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.publish import Publish
from tests.broker.auth.test_authorizer import connect, received, rule, ruled, subscribe
from tests.support.broker.local import LocalBroker

STATE = "$SYS/broker/connection/x/state"
OWN_STATE = rule("allow", "$SYS/broker/connection/{client_id}/state", action="publish")
READ_ALL = rule("allow", "$SYS/#", action="subscribe")


@pytest.mark.parametrize(
    ("own", "version", "bridge", "stored"),
    [
        ([], 4, True, True),
        ([], 4, False, False),
        ([], 5, False, False),
        ([OWN_STATE], 4, False, True),
        ([OWN_STATE], 5, False, True),
        ([rule("deny", "$SYS/#"), OWN_STATE], 4, True, False),
        ([rule("deny", "#", "$SYS/broker/#", client_ids=["x"])], 4, True, False),
    ],
)
def test_bridge_state(own: list[dict[str, Any]], version: int, bridge: bool, stored: bool) -> None:
    """A bridge of level 0x84 may state its own connection if no rule denies it; others need a rule that allows it."""
    with ruled(*own, READ_ALL) as broker:
        watcher = connect(broker, "watcher")
        subscribe(watcher, "$SYS/broker/connection/#")
        client = broker.client(version)
        client.send(Connect("x", True, will=Will(STATE.encode(), b"0", 0, True), version=version, bridge=bridge))
        assert (client.expect(Connack).reason_code == 0) == stored
        client.drop()
        assert received(watcher) == [STATE] * stored
        client = broker.client(version)
        client.send(Connect("x", True, version=version, bridge=bridge), Publish(STATE.encode(), b"1", 0, True))
        assert client.expect(Connack).reason_code == 0
        assert received(watcher) == [STATE] * stored
        assert (broker.broker.retained.get(STATE.encode()) is not None) == stored


def test_bridge_may_state_nothing_else() -> None:
    """A bridge that no rule allows anything can neither state more than 0 or 1, nor state it of another connection."""
    with ruled(READ_ALL) as broker:
        watcher = connect(broker, "watcher")
        subscribe(watcher, "$SYS/broker/connection/#")
        for client_id, topic, payload in [("x", STATE, b"2"), ("y", STATE, b"1"), ("+", STATE, b"1")]:
            client = broker.client(4)
            client.send(Connect(client_id, True, version=4, bridge=True), Publish(topic.encode(), payload, 0, True))
        assert received(watcher) == []
        assert broker.broker.retained.get(STATE.encode()) is None


def test_state_of_a_bridge_of_5_without_rules() -> None:
    """Where there are no rules any client may state its own connection: a bridge by MQTT 5 looks like any other."""
    with LocalBroker() as broker:
        client = broker.client()
        client.send(Connect("x", True, version=5), Publish(STATE.encode(), b"1", 0, True))
        assert broker.broker.retained.get(STATE.encode()) is not None
