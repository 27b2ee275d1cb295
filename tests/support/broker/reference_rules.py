"""What rules mean, in ten lines that are easy to believe, and rule sets to try them on."""

import re
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_network

from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from broker.auth.permissions import Who
from config.rule import Rule

LEVELS = ("a", "b", "ann", "$x")
PLACEHOLDER = re.compile(r"\{(username|client_id|role)\}")
NAMES = ("ann", "ben", "a", "+", "a/b", "$x", "b#")


def allowed(rules: list[Rule], default: bool, who: Who, action: str, topic: str, qos: int, retain: bool) -> bool:
    """Whether a client may publish on a topic, or receive it by a subscription at this QoS."""
    for rule in rules:
        if rule.action not in (action, "all") or (rule.qos and qos not in rule.qos):
            continue
        if action == "publish" and rule.retain not in (None, retain):
            continue
        if concerns(rule, who) and any(topic_matches_sub(own, topic) for own in filters(rule, who)):
            return rule.permit == "allow"
    return default


def concerns(rule: Rule, who: Who) -> bool:
    """Whether a rule is about this client."""
    return all(
        not patterns or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
        for patterns, names in (
            (rule.users, [] if who.user is None else [who.user]),
            (rule.roles, who.roles),
            (rule.client_ids, [who.client_id]),
            (rule.listeners, [who.listener]),
        )
    ) and (not rule.addresses or any(ip_address(who.host) in ip_network(network) for network in rule.addresses))


def filters(rule: Rule, who: Who) -> list[str]:
    """The topic filters of a rule for this client."""
    roles = [role for role in who.roles if not rule.roles or any(fnmatchcase(role, each) for each in rule.roles)]
    found = []
    for template in rule.topics:
        for role in roles if "{role}" in template else [""]:
            names = {"username": who.user, "client_id": who.client_id, "role": role}
            used = [names[each] for each in PLACEHOLDER.findall(template)]
            filled = PLACEHOLDER.sub(lambda match: str(names[match[1]]), template)  # noqa: B023 - used at once
            opens_more = any("/" in str(name) for name in used) or (filled[0] == "$" != template[0])
            if all(name and not set(name) & set("+#") for name in used) and not (rule.permit == "allow" and opens_more):
                found.append(filled)
    return found


def topics() -> st.SearchStrategy[str]:
    """Topics of few levels, so that rules and topics meet."""
    return st.lists(st.sampled_from(LEVELS), min_size=1, max_size=3).map("/".join)


def topic_filters(*more: str) -> st.SearchStrategy[str]:
    """Topic filters; `more`: other levels."""
    levels = st.lists(st.sampled_from((*LEVELS, "+", *more)), max_size=2)
    last = st.sampled_from((*LEVELS, "+", "#", *more))
    return st.builds(lambda before, end: "/".join([*before, end]), levels, last)


def some(*names: str) -> st.SearchStrategy[list[str]]:
    """No condition, or one or two names."""
    return st.one_of(st.just([]), st.lists(st.sampled_from(names), min_size=1, max_size=2))


def rules() -> st.SearchStrategy[Rule]:
    """Any rule."""
    return st.builds(
        lambda **keys: Rule.model_validate({**keys, "retain": None} if keys["action"] == "subscribe" else keys),
        permit=st.sampled_from(("allow", "deny")),
        topics=st.lists(topic_filters("{username}", "{client_id}", "{role}", "x{username}"), min_size=1, max_size=2),
        action=st.sampled_from(("publish", "subscribe", "all")),
        users=some("ann", "b*", "[ab]*", "+"),
        roles=some("ops", "o?s", "night"),
        client_ids=some("a", "b*", "a/b"),
        listeners=some("local", "x*"),
        addresses=some("127.0.0.1", "127.0.0.0/8", "10.0.0.0/8", "::1"),
        qos=st.lists(st.integers(0, 2), max_size=2),
        retain=st.sampled_from((None, True, False)),
    )


def clients() -> st.SearchStrategy[Who]:
    """Any client on loopback."""
    return st.builds(
        Who,
        user=st.sampled_from((None, *NAMES)),
        roles=st.frozensets(st.sampled_from(("ops", "night", "a")), max_size=2),
        client_id=st.sampled_from((*NAMES, "b1", "{username}")),
        host=st.sampled_from(("127.0.0.1", "10.1.1.1", "::1")),
        listener=st.sampled_from(("local", "xyz")),
        known=st.just(True),
    )
