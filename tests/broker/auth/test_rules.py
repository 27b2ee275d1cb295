"""Rules against their meaning in ten lines: any rules, any client, any topic."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.auth.permissions import Permissions, Who
from broker.auth.rules import RuleSet, from_settings
from config.rule import Rule
from tests.conftest import EXAMPLES
from tests.support.broker.reference_rules import allowed, clients, rules, topic_filters, topics

RULES = st.lists(rules(), max_size=6)
ANN = Who("ann", frozenset({"ops"}), "client", "127.0.0.1", "local")


def bound(own: list[Rule], default: bool, who: Who) -> Permissions:
    """What a client may do by these rules."""
    return Permissions(who, RuleSet([from_settings(rule) for rule in own]).bind(who), default)


@settings(max_examples=3 * EXAMPLES)
@given(RULES, st.booleans(), clients(), topics(), st.integers(0, 2), st.booleans())
def test_publish(own: list[Rule], default: bool, who: Who, topic: str, qos: int, retain: bool) -> None:
    """A PUBLISH is permitted as the reference says, the first time, from the kept decision and by the last topic."""
    permissions = bound(own, default, who)
    expected = allowed(own, default, who, "publish", topic, qos, retain)
    assert permissions.may_publish(topic.encode(), qos, retain) == expected
    for other in range(3):
        permissions.may_publish(topic.encode(), other, not retain)
    kinds = [(each, own_retain) for each in range(3) for own_retain in (False, True)]
    open_to_all = all(allowed(own, default, who, "publish", topic, *kind) for kind in kinds)
    assert (permissions.last == topic.encode()) == open_to_all
    assert permissions.may_publish(topic.encode(), qos, retain) == expected


@settings(max_examples=3 * EXAMPLES)
@given(RULES, st.booleans(), clients(), topics(), topic_filters(), st.integers(0, 2))
def test_subscribe(own: list[Rule], default: bool, who: Who, topic: str, wanted: str, qos: int) -> None:
    """A topic is delivered as the reference says; no filter is called fully readable, or unreadable, that is not."""
    permissions = bound(own, default, who)
    expected = allowed(own, default, who, "subscribe", topic, qos, False)
    assert permissions.may_receive(topic.encode(), qos) == expected
    everything = Rule(permit="allow", topics=[wanted])
    if allowed([everything], False, who, "subscribe", topic, qos, False):  # the filter matches the topic
        if permissions.may_receive_all(wanted.encode(), qos):
            assert expected
        if not permissions.may_receive_some(wanted.encode(), qos):
            assert not expected


@settings(max_examples=2 * EXAMPLES)
@given(topic_filters(), topic_filters(), topics())
def test_filters(own: str, wanted: str, topic: str) -> None:
    """Filters that cover or do not meet each other do so for every topic."""
    permissions = bound([Rule(permit="allow", topics=[own])], False, ANN)
    in_own = allowed([Rule(permit="allow", topics=[own])], False, ANN, "subscribe", topic, 0, False)
    in_wanted = allowed([Rule(permit="allow", topics=[wanted])], False, ANN, "subscribe", topic, 0, False)
    assert in_own == permissions.may_receive(topic.encode(), 0)
    if permissions.may_receive_all(wanted.encode(), 0):
        assert in_own or not in_wanted
    if in_own and in_wanted:
        assert permissions.may_receive_some(wanted.encode(), 0)


@pytest.mark.parametrize(
    ("own", "wanted", "everything", "something"),
    [
        ("#", "#", True, True),
        ("#", "a/+/b", True, True),
        ("+/#", "#", True, True),
        ("#", "$SYS/#", False, False),
        ("$SYS/#", "#", False, False),
        ("$SYS/#", "$SYS/a", True, True),
        ("a/#", "a", True, True),
        ("a/#", "a/#", True, True),
        ("a/+", "a/#", False, True),
        ("a/+/c", "a/b/+", False, True),
        ("a/b", "a/+", False, True),
        ("a/b", "a/b/#", False, True),
        ("a/b", "b/#", False, False),
        ("a/b", "a", False, False),
    ],
)
def test_coverage(own: str, wanted: str, everything: bool, something: bool) -> None:
    """The filter of a rule against one that is subscribed to."""
    permissions = bound([Rule(permit="allow", topics=[own])], False, ANN)
    assert permissions.may_receive_all(wanted.encode(), 1) == everything
    assert permissions.may_receive_some(wanted.encode(), 1) == something


@pytest.mark.parametrize("name", ["+", "#", "a/b", "/", ""])
def test_names_are_no_wildcards(name: str) -> None:
    """A name with a wildcard or slash opens nothing, neither topics nor filters that look like it."""
    who = Who(name, frozenset(), name, "", "")
    for template in ("{username}/#", "x/{client_id}"):
        permissions = bound([Rule(permit="allow", topics=[template])], False, who)
        for topic in ("a/b", "x/a", name or "a", f"{name}/x", f"x/{name}"):
            assert not permissions.may_publish(topic.encode(), 0, False)
            assert not permissions.may_receive_some(topic.encode(), 0)


@pytest.mark.parametrize("name", ["$SYS", "$share", "$x"])
def test_names_are_not_the_brokers(name: str) -> None:
    """A name that begins with $ opens no tree of that name, such as the broker's own; behind a level it is a name."""
    who = Who(name, frozenset({name}), name, "", "")
    own = [Rule(permit="allow", topics=["{username}/#", "{client_id}/#", "{role}", "{client_id}", "x/{username}"])]
    permissions = bound(own, False, who)
    assert not permissions.may_receive_some(f"{name}/#".encode(), 0)
    assert not permissions.may_receive(f"{name}/a".encode(), 0)
    assert not permissions.may_publish(name.encode(), 0, False)
    assert permissions.may_publish(f"x/{name}".encode(), 0, False)


@pytest.mark.parametrize(
    ("name", "topic"), [("a/b", "boxes/a/b/seal"), ("/", "boxes///seal"), ("$x", "$x/seal"), ("a/b", "a/b/seal")]
)
def test_denied_whatever_the_name(name: str, topic: str) -> None:
    """What denies is about names with slashes and those that begin with $ too, however much is allowed."""
    own = [
        Rule(permit="deny", topics=["boxes/{username}/seal", "{client_id}/seal"]),
        Rule(permit="allow", topics=["#", "$x/#"]),
    ]
    permissions = bound(own, True, Who(name, frozenset(), name, "", ""))
    assert not permissions.may_publish(topic.encode(), 0, False)
    assert not permissions.may_receive(topic.encode(), 0)
    assert permissions.may_publish(f"{topic}/open".encode(), 0, False)


def test_placeholders_are_replaced_once() -> None:
    """A client id that looks like a placeholder is a name like others."""
    who = Who("ann", frozenset(), "{username}", "", "")
    permissions = bound([Rule(permit="allow", topics=["x/{client_id}"])], False, who)
    assert permissions.may_publish(b"x/{username}", 0, False)
    assert not permissions.may_publish(b"x/ann", 0, False)


@pytest.mark.parametrize(
    ("host", "inside"), [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("10.2.0.1", False), ("", False)]
)
def test_addresses(host: str, inside: bool) -> None:
    """An IPv4 client is one on a socket of IPv6 too; who has no address is in no network."""
    permissions = bound([Rule(permit="allow", topics=["#"], addresses=["10.1.0.0/16"])], False, ANN._replace(host=host))
    assert permissions.may_publish(b"a", 0, False) == inside


def test_many_topics() -> None:
    """A client that publishes on ever new topics keeps a bounded number of decisions, and all of them are right."""
    permissions = bound([Rule(permit="deny", topics=["+/shut"])], True, ANN)
    for number in range(5_000):
        assert permissions.may_publish(b"%d/open" % number, 0, False)
        assert not permissions.may_publish(b"%d/shut" % number, 0, False)


def test_memory() -> None:
    """A thousand rules without names in their topics cost each of 250 clients no more than 16 KiB."""
    own = [Rule(permit="allow", topics=[f"plant/{number}/#", f"hall/{number}/+"]) for number in range(1_000)]
    made = RuleSet([from_settings(each) for each in own])
    tracemalloc.start()
    held = [Permissions(each, made.bind(each), False) for each in (ANN._replace(user=f"u{n}") for n in range(250))]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(held) == 250
    assert size / 250 < 16 * 1024


@settings(max_examples=5 * EXAMPLES)
@given(RULES, st.booleans(), clients(), topics(), st.integers(0, 2), st.booleans())
def test_unknown_client(own: list[Rule], default: bool, who: Who, topic: str, qos: int, retain: bool) -> None:
    """A client of which only the id is known may never do more than one with that id of which all is known."""
    nobody = bound(own, default, Who(None, frozenset(), who.client_id, "", "", known=False))
    if nobody.may_publish(topic.encode(), qos, retain):
        assert allowed(own, default, who, "publish", topic, qos, retain)
    if nobody.may_receive(topic.encode(), qos):
        assert allowed(own, default, who, "subscribe", topic, qos, False)
    about_all = [rule for rule in own if not (rule.users or rule.roles or rule.addresses or rule.listeners)]
    plain = [rule for rule in about_all if not any("{" in each for each in rule.topics)]
    if plain == own:
        assert nobody.may_receive(topic.encode(), qos) == allowed(own, default, who, "subscribe", topic, qos, False)
