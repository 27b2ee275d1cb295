"""FC-35: what an event says, and who can read it."""

import json
from datetime import UTC, datetime
from typing import Any

from broker.runtime.clock import monotonic_us
from protocol import properties as props
from protocol.publish import Publish
from tests.support.broker.dropping import EACH, MESSAGE, SHORT, TOPICS, Reader, join, overflow, publish, said
from tests.support.broker.local import LocalBroker


def test_a_reader_of_3_1_1() -> None:
    """FC-35: MQTT 3.1.1 has no properties, so the payload says it all, in UTF-8; the client's name is one level."""
    with LocalBroker(**EACH, **SHORT) as local:
        reader = Reader(local, "$SYS/broker/dropped/a%2Fb%23%2B%25", version=4)
        join(local, "a/b#+%", "zürich").drop()
        topic = "zürich".encode()
        publish(local, Publish(topic, MESSAGE, 2, True), Publish(topic, b"stays", 1))
        (event,) = reader.events()
        assert topic in event.payload
        told = json.loads(event.payload)
        del told["received"]
        assert told == {
            "reason": "queue_full",
            "client_id": "a/b#+%",
            "topic": "zürich",
            "qos": 2,
            "retain": False,
            "size": len(MESSAGE),
        }


def test_a_dead_letter() -> None:
    """FC-35: a copy has the payload and the properties that say what it is, no expiry, and nothing forged."""
    copies = {"topic": "dead/{reason}/{topic}", "payload": "copy", "max_rate": "infinity"}
    with LocalBroker(drop_events=copies, **SHORT) as local:
        reader = Reader(local, "dead/queue_full/#")
        join(local, "loser", "a/b").drop()
        own = {
            props.CONTENT_TYPE: "text/plain",
            props.RESPONSE_TOPIC: "r",
            props.CORRELATION_DATA: b"c",
            props.MESSAGE_EXPIRY_INTERVAL: 60,
            props.USER_PROPERTY: [("own", "1"), ("sluice-reason", "forged"), ("own", "2")],
        }
        lost = Publish(b"a/b", MESSAGE, 2, False, own)  # type: ignore[arg-type] # the values are of several types
        lost.expires_at = monotonic_us() + 60_000_000
        publish(local, lost, Publish(b"a/b", b"stays", 1))
        (event,) = reader.events()
        assert (event.topic, event.payload, event.qos, event.retain) == (b"dead/queue_full/a/b", MESSAGE, 1, False)
        assert event.properties is not None
        pairs: Any = event.properties.pop(props.USER_PROPERTY)
        assert event.properties == {key: own[key] for key in list(own)[:3]}
        assert pairs[:2] == [("own", "1"), ("own", "2")]
        told = dict(pairs[2:])
        assert len(told) == len(pairs) - 2
        received, expires = [datetime.fromisoformat(told.pop(f"sluice-{name}")) for name in ("received", "expires")]
        assert abs((datetime.now(UTC) - received).total_seconds()) < 30
        assert abs((expires - received).total_seconds() - 60) < 1
        assert told == {
            "sluice-reason": "queue_full",
            "sluice-client-id": "loser",
            "sluice-topic": "a/b",
            "sluice-qos": "2",
            "sluice-retain": "false",
            "sluice-size": str(len(MESSAGE)),
        }
        late = local.client()
        late.connect("late")
        late.subscribe("dead/#")
        assert late.received() == []


def test_rules_say_who_may_read_them() -> None:
    """FC-35: rules about the topic of the events decide, as about any topic of the broker."""
    rules = [{"permit": "allow", "topics": [TOPICS], "client_ids": ["reader"]}]
    sections: dict[str, Any] = {"authorization": {"rules": [*rules, {"permit": "deny", "topics": [TOPICS]}]}}
    with LocalBroker(**EACH, **SHORT, **sections) as local:
        reader = Reader(local)
        other = join(local, "other", "$SYS/#")
        overflow(local)
        assert len(reader.events()) == 1
        assert other.received() == []


def test_a_topic_that_is_too_long_or_too_deep() -> None:
    """FC-35: where the message's topic does not fit into that of the event, `%` stands for it."""
    events = {"topic": "d/{client_id}/{topic}", "max_rate": "infinity"}
    with LocalBroker(drop_events=events, mqtt={"max_topic_levels": 4}, **SHORT) as local:
        reader = Reader(local, "d/#")
        join(local, "loser", "#").drop()
        fits = b"x" * (65_535 - len(b"d/loser/"))
        topics = [b"1/2/3", fits + b"x", b"1/2", fits]
        publish(local, *[Publish(topic, b"", 1) for topic in (*topics, b"y")])
        came = reader.events()
        assert [event.topic for event in came] == [b"d/loser/%"] * 2 + [b"d/loser/1/2", b"d/loser/" + fits]
        assert [said(event)["sluice-topic"].encode() for event in came] == topics
