"""What one client may publish and receive, by the rules: the first rule that matches decides.

A decision is made once for each client and topic, and kept. Filters of rules are compared as lists of levels.
"""

from typing import Final, NamedTuple, final

MOST_BYTES: Final = 131_072
"""Bytes of the decisions that a client keeps for its PUBLISHes; past that it begins anew."""
_DECISION: Final = 128
"""Bytes of a decision besides the topic's."""
_LONG: Final = 1_024
"""Bytes of a topic that is decided anew each time."""

QOS: Final = 0b111
"""Mask of all QoS of a subscription: bit n is QoS n."""
QOS_RETAIN: Final = 0b111111
"""Mask of all kinds of PUBLISH: bit 2n is QoS n, bit 2n + 1 QoS n with RETAIN."""
RETAINED: Final = 0b101010
"""Mask of all PUBLISHes with RETAIN."""

Levels = list[bytes]

EVERYTHING: Final[Levels] = []
"""Matches every topic, also those that begin with `$`, which `#` does not."""

_NO_TOPIC: Final = b"\0"
"""Equals no topic [MQTT-1.5.4-2]."""
_PLUS: Final = b"+"
_HASH: Final = b"#"
_WILDCARDS: Final = (_PLUS, _HASH)


class Who(NamedTuple):
    """What rules know of a client."""

    user: str | None
    """None: it has not authenticated."""
    roles: frozenset[str]
    client_id: str
    host: str
    """Its IP address; empty if it has none."""
    listener: str
    known: bool = True
    """False: only the client id is known, of a session that a broker has kept that did not write more."""
    bridge: bool = False
    """Whether it has said that it is a bridge (protocol level 0x84 or 0x83)."""


@final
class BoundRule:
    """A rule as it applies to one client: its filters have the client's names in them."""

    def __init__(self, allow: bool, publish: int, subscribe: int, filters: list[Levels]) -> None:
        self.allow = allow
        self.publish = publish
        """The kinds of PUBLISH that it is about (QOS_RETAIN); 0 = none."""
        self.subscribe = subscribe
        """The QoS of subscriptions that it is about (QOS); 0 = none."""
        self.filters = filters

    def equals(self, other: "BoundRule") -> bool:
        """Whether another rule says the same."""
        return self is other or (
            self.allow == other.allow
            and self.publish == other.publish
            and self.subscribe == other.subscribe
            and self.filters == other.filters
        )

    def matches(self, topic: Levels) -> bool:
        """Whether it is about a topic."""
        return any(matches(own, topic) for own in self.filters)

    def covers(self, topic_filter: Levels) -> bool:
        """Whether it is about every topic that a filter matches."""
        return any(covers(own, topic_filter) for own in self.filters)

    def intersects(self, topic_filter: Levels) -> bool:
        """Whether it is about a topic that a filter matches."""
        return any(intersects(own, topic_filter) for own in self.filters)


@final
class Permissions:
    """What one client may do."""

    def __init__(self, who: Who, rules: list[BoundRule], default: bool) -> None:
        self.who = who
        self._rules = rules
        self._default = default
        """What applies where no rule matches."""
        self._decisions: dict[bytes, int] = {}
        self._bytes = 0
        """Of the decisions."""
        self.last: bytes = _NO_TOPIC
        """The last topic to which it has published and may publish anything: most publish to one only."""

    def may_publish(self, topic: bytes, qos: int, retain: bool) -> bool:
        """Whether the client may publish on a topic."""
        decided = self._decisions.get(topic, -1)
        if decided < 0:
            decided = self._decide_publish(topic)
        if decided == QOS_RETAIN:
            if len(topic) <= _LONG:
                self.last = topic
            return True
        return decided >> (2 * qos + (1 if retain else 0)) & 1 == 1

    def equals(self, other: "Permissions") -> bool:
        """Whether another client may do the same, by the same rules in the same form."""
        if self._default != other._default or len(self._rules) != len(other._rules):
            return False
        return all(own.equals(its) for own, its in zip(self._rules, other._rules, strict=True))

    def may_receive(self, topic: bytes, qos: int) -> bool:
        """Whether a subscription at this QoS delivers a topic's messages. The router keeps the answer."""
        levels = topic.split(b"/")
        for rule in self._rules:
            if rule.subscribe >> qos & 1 and rule.matches(levels):
                return rule.allow
        return self._default

    def may_receive_all(self, topic_filter: bytes, qos: int) -> bool:
        """Whether it may receive every topic that a filter matches. False if that cannot be told rule by rule."""
        levels = topic_filter.split(b"/")
        for rule in self._rules:
            if rule.subscribe >> qos & 1 and rule.intersects(levels):
                if not rule.allow:
                    return False
                if rule.covers(levels):
                    return True
        return self._default

    def may_receive_some(self, topic_filter: bytes, qos: int) -> bool:
        """Whether there may be a topic that a filter matches and that it may receive. False if there is none."""
        levels = topic_filter.split(b"/")
        for rule in self._rules:
            if rule.subscribe >> qos & 1:
                if rule.allow:
                    if rule.intersects(levels):
                        return True
                elif rule.covers(levels):
                    return False
        return self._default

    def _decide_publish(self, topic: bytes) -> int:
        levels = topic.split(b"/")
        open_kinds = QOS_RETAIN
        allowed = 0
        for rule in self._rules:
            kinds = rule.publish & open_kinds
            if kinds and rule.matches(levels):
                if rule.allow:
                    allowed |= kinds
                open_kinds &= ~kinds
                if open_kinds == 0:
                    break
        if self._default:
            allowed |= open_kinds
        if len(topic) <= _LONG:
            self._bytes += _DECISION + len(topic)
            if self._bytes > MOST_BYTES:
                self._decisions.clear()
                self._bytes = _DECISION + len(topic)
            self._decisions[topic] = allowed
        return allowed


def matches(own: Levels, topic: Levels) -> bool:
    """Whether a filter matches a topic (section 4.7.1)."""
    if not own:
        return True
    if topic[0].startswith(b"$") and own[0] in _WILDCARDS:  # [MQTT-4.7.2-1]
        return False
    count = len(topic)
    position = 0
    for level in own:
        if level == _HASH:
            return True  # also the level above it
        if position == count or (level != _PLUS and level != topic[position]):
            return False
        position += 1
    return position == count


def covers(own: Levels, topic_filter: Levels) -> bool:
    """Whether a filter matches every topic that another one matches."""
    if not own:
        return True
    if topic_filter[0].startswith(b"$") and own[0] in _WILDCARDS:
        return False
    if len(own) == 2 and own[0] == _PLUS and own[1] == _HASH:
        return True  # as #: every topic has a first level
    count = len(topic_filter)
    position = 0
    for level in own:
        if level == _HASH:
            return True
        if position == count:
            return False
        other = topic_filter[position]
        if other == _HASH or (level != _PLUS and level != other):
            return False
        position += 1
    return position == count


def intersects(own: Levels, topic_filter: Levels) -> bool:
    """Whether there is a topic that both filters match."""
    if not own:
        return True
    first, other_first = own[0], topic_filter[0]
    if first.startswith(b"$") and other_first in _WILDCARDS:
        return False
    if other_first.startswith(b"$") and first in _WILDCARDS:
        return False
    for level, other in zip(own, topic_filter):  # noqa: B905 - the rest is compared below
        if level == _HASH or other == _HASH:
            return True
        if level != other and level != _PLUS and other != _PLUS:
            return False
    if len(own) > len(topic_filter):
        return own[len(topic_filter)] == _HASH  # it also matches the level above it
    if len(own) < len(topic_filter):
        return topic_filter[len(own)] == _HASH
    return True
