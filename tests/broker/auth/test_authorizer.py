"""Rules in a whole broker: PUBLISH, SUBSCRIBE, retained messages, wills, shared subscriptions, rules that change."""

import gc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.auth.permissions import Who
from broker.auth.rules import from_settings
from config.models import Config
from config.rule import Rule
from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.reference_rules import allowed, rules, topic_filters, topics

DENIED = reason_codes.NOT_AUTHORIZED
REFUSED = reason_codes.UNSPECIFIED_ERROR


def rule(permit: str, *topics: str, **more: Any) -> dict[str, Any]:
    """A rule as in the configuration."""
    return {"permit": permit, "topics": list(topics), **more}


def ruled(*own: dict[str, Any], **more: Any) -> LocalBroker:
    """A broker with these rules, which denies the rest; `more` are further keys of the section."""
    return LocalBroker(authorization={"rules": list(own), "default": "deny", **more})


def connect(broker: LocalBroker, client_id: str, version: int = 5, **more: Any) -> LocalClient:
    """A client that is connected."""
    client = broker.client(version)
    assert client.connect(client_id, **more).reason_code == 0
    return client


def publish(client: LocalClient, topic: str, qos: int = 1, retain: bool = False) -> int:
    """The reason code of PUBACK."""
    client.send(Publish(topic.encode(), topic.encode(), qos, retain, packet_id=1))
    return client.expect(Puback).reason_code


def subscribe(client: LocalClient, *filters: str, qos: int = 0) -> list[int]:
    """The reason codes of SUBACK; what else comes is left."""
    client.send(Subscribe(1, [Subscription(each, qos) for each in filters]))
    return client.expect(Suback).reason_codes


def received(client: LocalClient) -> list[str]:
    """The topics of what has come."""
    packets = client.received()
    assert all(isinstance(packet, Publish) for packet in packets), packets
    return [packet.topic.decode() for packet in packets if isinstance(packet, Publish)]


def test_first_match_decides() -> None:
    """The order of the rules counts, and what none of them is about is denied."""
    with ruled(rule("deny", "a/shut"), rule("allow", "a/#"), rule("deny", "a/late")) as broker:
        client = connect(broker, "x")
        assert [publish(client, topic) for topic in ("a/shut", "a/late", "b")] == [DENIED, 0x10, DENIED]


def test_publish_by_qos_and_retain() -> None:
    """Rules tell PUBLISHes apart by QoS and RETAIN, also when another kind has been decided before."""
    with ruled(rule("deny", "a", retain=True), rule("allow", "a", action="publish", qos=[1])) as broker:
        client = connect(broker, "x")
        assert publish(client, "a") == 0x10
        assert publish(client, "a", retain=True) == DENIED
        client.send(Publish(b"a", b"", 2, packet_id=1))
        (packet,) = client.received()
        assert getattr(packet, "reason_code", 0) == DENIED
        assert publish(client, "a") == 0x10


def test_each_client_has_its_own() -> None:
    """{client_id} and names tell clients apart."""
    with ruled(rule("allow", "own/{client_id}/#"), rule("allow", "all", client_ids=["a*"])) as broker:
        ann, ben = connect(broker, "ann"), connect(broker, "ben")
        assert [publish(ann, topic) for topic in ("own/ann/x", "own/ben/x", "all")] == [0x10, DENIED, 0x10]
        assert [publish(ben, topic) for topic in ("own/ben/x", "own/ann/x", "all")] == [0x10, DENIED, DENIED]


def test_wide_subscription_is_narrowed() -> None:
    """A subscription to everything delivers what its client may receive, retained messages too."""
    with ruled(rule("allow", "#", client_ids=["boss"]), rule("allow", "mine/#", action="subscribe")) as broker:
        boss, client = connect(broker, "boss"), connect(broker, "x")
        for topic in ("mine/kept", "secret/kept"):
            publish(boss, topic, retain=True)
        client.send(Subscribe(1, [Subscription("#", 1)]))
        suback, *kept = client.received()
        assert isinstance(suback, Suback)
        assert suback.reason_codes == [1]
        assert [packet.topic for packet in kept if isinstance(packet, Publish)] == [b"mine/kept"]
        for topic in ("mine/a", "secret/a", "mine"):
            publish(boss, topic)
        assert received(client) == ["mine/a", "mine"]


def test_nothing_to_receive() -> None:
    """A subscription without any topic that its client may receive is refused."""
    with ruled(rule("allow", "mine/#")) as broker:
        client = connect(broker, "x")
        assert subscribe(client, "secret/#", "mine/a", "+/a", "+") == [REFUSED, 0, 0, 0]


def test_wide_subscription_is_refused() -> None:
    """With `refuse` a subscription has to be covered whole."""
    with ruled(rule("deny", "mine/shut"), rule("allow", "mine/#"), wide_subscriptions="refuse") as broker:
        client = connect(broker, "x")
        codes = subscribe(client, "#", "mine/#", "mine/a/#", "mine/+", "mine/shut")
        assert codes == [REFUSED, REFUSED, 0, REFUSED, REFUSED]


def test_subscription_by_qos() -> None:
    """A rule may be about subscriptions at some QoS; the same filter at another one is decided anew."""
    with ruled(rule("allow", "a", qos=[0])) as broker:
        client = connect(broker, "x")
        assert subscribe(client, "a", qos=1) == [REFUSED]
        assert subscribe(client, "a", qos=0) == [0]


def test_shared_subscription_is_never_narrowed() -> None:
    """The members of a group take from one queue, so each of them must be allowed to receive all of it."""
    with ruled(rule("allow", "mine/#")) as broker:
        client = connect(broker, "x")
        assert subscribe(client, "$share/g/mine/+", "$share/g/#", "$share/g/secret") == [0, REFUSED, REFUSED]


def test_will() -> None:
    """A will that its client may not publish is refused with CONNECT."""
    with ruled(rule("allow", "gone/{client_id}", action="publish"), rule("allow", "#", client_ids=["boss"])) as broker:
        boss = connect(broker, "boss")
        subscribe(boss, "#")
        for topic, code in ((b"gone/y", DENIED), (b"gone/x", 0)):
            client = broker.client()
            client.send(Connect("x", True, will=Will(topic, b"will"), version=5))
            assert client.expect(Connack).reason_code == code
            client.drop()
        assert received(boss) == ["gone/x"]


def test_assigned_client_id() -> None:
    """A client whose id the broker assigns has the rights of that id."""
    with ruled(rule("allow", "own/{client_id}")) as broker:
        client = broker.client()
        assigned = str((client.connect("").properties or {})[props.ASSIGNED_CLIENT_IDENTIFIER])
        assert publish(client, f"own/{assigned}") == 0x10
        assert publish(client, "own/x") == DENIED


# -- rules that change


def use(broker: LocalBroker, *own: dict[str, Any]) -> None:
    """Replace all rules."""
    use_parsed(broker, [Rule.model_validate(each) for each in own])


def use_parsed(broker: LocalBroker, own: list[Rule]) -> None:
    """Replace all rules."""
    broker.complete(broker.broker.use_rules("", [from_settings(each) for each in own]))


def test_change_applies_to_sessions() -> None:
    """New rules act on connected clients at once: on what they publish, on what they get, and on their wills."""
    with ruled(rule("allow", "#")) as broker:
        boss = connect(broker, "boss")
        client = connect(broker, "x", will=Will(b"gone", b"will"))
        assert subscribe(client, "a/#") == [0]
        assert subscribe(boss, "gone") == [0]
        assert publish(boss, "a/b") == 0
        assert received(client) == ["a/b"]
        assert publish(client, "b") == 0x10
        use(broker, rule("allow", "#", client_ids=["boss"]), rule("allow", "a/c"))
        assert [publish(boss, topic) for topic in ("a/b", "a/c")] == [0x10, 0]
        assert received(client) == ["a/c"]
        assert publish(client, "b") == DENIED
        client.drop()
        assert received(boss) == []
        use(broker, rule("allow", "#"))
        assert publish_raw(boss, "gone") == 0
        assert received(boss) == ["gone"]


def test_change_ends_shared_subscriptions() -> None:
    """A member that may no longer receive everything leaves the group, and is disconnected so that it knows."""
    with ruled(rule("allow", "#")) as broker:
        boss, client, other = (connect(broker, name) for name in ("boss", "x", "y"))
        assert subscribe(client, "$share/g/a/#") == subscribe(other, "$share/g/a/#") == [0]
        use(broker, rule("deny", "a/secret", client_ids=["x"]), rule("allow", "#"))
        assert client.expect(Disconnect).reason_code == DENIED
        for topic in ("a/secret", "a/secret", "a/open"):
            assert publish(boss, topic) == 0
        assert received(other) == ["a/secret", "a/secret", "a/open"]


def test_change_leaves_no_young_objects() -> None:
    """A change of rules for many sessions leaves the next search of the garbage collector hardly anything to do."""
    with ruled(rule("allow", "#")) as broker:
        for number in range(2_000):
            connect(broker, f"x{number}", properties={props.SESSION_EXPIRY_INTERVAL: 100}).drop()
        gc.collect()
        use(broker, rule("allow", "a/#"), rule("allow", "b"))
        assert len(gc.get_objects(0)) + len(gc.get_objects(1)) < 1_000


def test_kept_session_with_other_rights() -> None:
    """A session is narrowed by the rights of its last connection, also where the receivers were known before."""
    with ruled(rule("deny", "a", listeners=["other"]), rule("allow", "#")) as broker:
        boss = connect(broker, "boss")
        client = connect(broker, "x", properties={props.SESSION_EXPIRY_INTERVAL: 100})
        assert subscribe(client, "#") == [0]
        publish(boss, "a")
        assert received(client) == ["a"]
        client.drop()
        again = broker.client()
        again.connection.listener = "other"
        assert again.connect("x", clean_start=False).session_present
        publish(boss, "a")
        publish(boss, "b")
        assert received(again) == ["b"]


# -- the first rules


def reload(broker: LocalBroker, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Use another section `authorization`."""
    one, two = (Config.model_validate({"authorization": section}) for section in (before, after))
    broker.complete(broker.broker.use(two, one))


def test_first_rules_apply_to_sessions() -> None:
    """A broker without rules that gets some checks everybody: who is there, what waits, wills, and who comes later."""
    lasting: Properties = {props.SESSION_EXPIRY_INTERVAL: 100}
    own = [rule("allow", "#", client_ids=["boss"]), rule("deny", "shut"), rule("allow", "#")]
    with LocalBroker() as broker:
        boss = connect(broker, "boss")
        client = connect(broker, "x", will=Will(b"shut", b"will"))
        member = connect(broker, "m")
        away = connect(broker, "away", properties=lasting)
        assert subscribe(client, "#") == subscribe(boss, "shut") == subscribe(member, "$share/g/#") == [0]
        assert subscribe(away, "#", qos=1) == [1]
        away.drop()
        assert [publish_raw(boss, topic) for topic in ("open", "shut")] == [0, 0]
        for each in (client, member, boss):
            each.received()
        reload(broker, {}, {"rules": own})
        assert member.expect(Disconnect).reason_code == DENIED
        assert [publish_raw(client, topic) for topic in ("shut", "open")] == [DENIED, 0]
        assert received(client) == ["open"]
        assert publish_raw(boss, "shut") == 0
        assert received(boss) == ["shut"]
        assert received(client) == []
        client.drop()
        assert received(boss) == []
        again = broker.client()
        again.send(Connect("away", False, properties=lasting, version=5))
        assert {each.topic for each in again.received() if isinstance(each, Publish)} == {b"open"}
        late = connect(broker, "late")
        assert subscribe(late, "$share/g/#", "shut", "open") == [REFUSED, REFUSED, 0]
        assert publish(late, "shut") == DENIED
        reload(broker, {"rules": own}, {})
        assert publish(late, "shut") == 0
        assert subscribe(late, "shut") == [0]


def test_first_rules_apply_to_what_waits() -> None:
    """What waits for a client that is connected is decided anew by the first rules, and so are retained messages."""
    with LocalBroker() as broker:
        boss = connect(broker, "boss")
        client = connect(broker, "x", properties={props.RECEIVE_MAXIMUM: 1})
        assert [publish(boss, topic, retain=True) for topic in ("kept/open", "kept/shut")] == [0x10, 0x10]
        assert subscribe(client, "a/+", qos=1) == [1]
        assert [publish(boss, topic) for topic in ("a/open", "a/shut", "a/late")] == [0, 0, 0]
        assert received(client) == ["a/open"]
        client.send(Subscribe(2, [Subscription("kept/+", 1)]))
        client.received()
        reload(broker, {}, {"rules": [rule("deny", "+/shut")]})
        got: list[str] = []
        for packet_id in range(1, 4):
            client.send(Puback(packet_id))
            got += received(client)
        assert sorted(got) == ["a/late", "kept/open"]


# -- against the reference


@settings(max_examples=100, deadline=None)
@given(st.data(), st.lists(rules(), max_size=5), st.lists(rules(), max_size=5), *[st.booleans()] * 3)
def test_no_delivery_that_a_rule_forbids(
    data: st.DataObject, before: list[Rule], after: list[Rule], default: bool, narrow: bool, first: bool
) -> None:
    """Whatever the rules, filters and topics, before and after a change: what is denied is neither taken nor delivered.

    What is allowed is delivered to each subscription that was accepted. `first`: there have been no rules before these.
    """
    section = {
        "rules": [rule("deny", "#", client_ids=["nobody"]), *(own.model_dump() for own in before)],
        "default": "allow" if default else "deny",
        "wide_subscriptions": "narrow" if narrow else "refuse",
    }
    wanted = data.draw(st.lists(st.tuples(topic_filters(), st.integers(0, 2)), min_size=1, max_size=3))
    names = ("ann", "b1", "a/b")
    with LocalBroker(authorization={} if first else section) as broker:
        clients = {name: connect(broker, name) for name in names}
        accepted: dict[str, list[tuple[str, int]]] = {}
        for name, client in clients.items():
            client.send(Subscribe(1, [Subscription(each, qos) for each, qos in wanted]))
            codes = client.expect(Suback).reason_codes
            accepted[name] = [each for each, code in zip(wanted, codes, strict=True) if code < REFUSED]
        for own in (before, after):
            if broker.broker.authorizer is None:
                reload(broker, {}, section)
            else:
                use_parsed(broker, own)
            for topic in data.draw(st.lists(topics(), max_size=3)):
                _publish_and_compare(clients, accepted, own, default, topic, data.draw(st.sampled_from(names)))


def _publish_and_compare(
    clients: dict[str, LocalClient],
    accepted: dict[str, list[tuple[str, int]]],
    own: list[Rule],
    default: bool,
    topic: str,
    publisher: str,
) -> None:
    code = publish_raw(clients[publisher], topic)
    taken = allowed(own, default, who(publisher), "publish", topic, 1, False)
    assert (code == DENIED) == (not taken)
    for name, client in clients.items():
        readable = [
            allowed(own, default, who(name), "subscribe", topic, qos, False)
            for each, qos in dict(accepted[name]).items()
            if allowed([Rule(permit="allow", topics=[each])], False, who(name), "subscribe", topic, 0, False)
        ]
        assert received(client) == ([topic] if taken and any(readable) else [])


def publish_raw(client: LocalClient, topic: str) -> int:
    """PUBLISH at QoS 1; deliveries to the publisher itself stay for later."""
    client.send(Publish(topic.encode(), b"x", 1, packet_id=1))
    packets = client.received()
    (code,) = [packet.reason_code for packet in packets if isinstance(packet, Puback)]
    client.transport.written = [packet.encode(5) for packet in packets if not isinstance(packet, Puback)]
    return code


def who(name: str) -> Who:
    """A client of a LocalBroker: without an address, so in no network of the rules."""
    return Who(None, frozenset(), name, "0.0.0.0", "local")


@pytest.mark.parametrize(
    ("section", "active"),
    [
        ({}, False),
        ({"default": "allow"}, False),
        ({"default": "deny"}, True),
        ({"rules": [rule("deny", "shut")]}, True),
    ],
)
def test_default(section: dict[str, Any], active: bool) -> None:
    """Without rules all is allowed, and with rules but no users what they are not about."""
    with LocalBroker(authorization=section) as broker:
        assert (broker.broker.authorizer is not None) == active
        client = connect(broker, "x")
        denied = section.get("default") == "deny"
        assert publish(client, "open") == (DENIED if denied else 0x10)
