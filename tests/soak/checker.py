"""Holds what the clients have seen to what the rules promise."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Final

from protocol.topics import matches
from tests.soak.observed import ACKNOWLEDGED, Message, Observed, Receipt, Seen, group_matches

NAMED: Final = 20
"""Messages that a violation names."""


@dataclass(frozen=True)
class Rules:
    """What the configuration of a round promises."""

    lossless: bool = True
    """Whether queues take whatever comes."""
    restarts: int = 0
    """How often the broker restarts. What it has sent at QoS 1 just before, it may send once more as new (FC-27)."""
    discarding: tuple[str, ...] = ()
    """Filters of addresses that may acknowledge and discard (FC-26)."""
    uncertain: tuple[str, ...] = ()
    """Filters of addresses: a message may be refused, and routed when it is sent again, after later ones."""
    one_at_a_time: bool = False
    """Whether QoS 1 and 2 are in order over all topics (FC-9)."""


@dataclass(frozen=True)
class Violation:
    """A promise that was not kept."""

    promise: str
    who: str
    detail: str
    messages: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = ", ".join(self.messages[:NAMED])
        more = f" and {len(self.messages) - NAMED} more" if len(self.messages) > NAMED else ""
        return f"{self.promise}: {self.who}: {self.detail}{': ' + named + more if named else ''}"


class Lost:
    """What of one session has not come, by QoS."""

    def __init__(self, session: Seen) -> None:
        self.session = session
        self.surely: Counter[int] = Counter()
        """Messages that were promised: at least so many deliveries were dropped."""
        self.perhaps: Counter[int] = Counter()
        """Transmissions of their publishers that brought nothing: at most so many were."""


@dataclass
class Missing:
    """Deliveries that have not come, for the books to explain."""

    sessions: list[Lost] = field(default_factory=list)
    """All that were kept to the end."""
    discardable: int = 0
    """Messages of addresses that may discard which at least one session has missed."""


def check(observed: Observed, rules: Rules) -> tuple[list[Violation], Missing]:
    """Return what is wrong, and what is missing where that may be right."""
    checker = _Checker(observed, rules)
    checker.check()
    return checker.found, checker.missing


class _Checker:
    def __init__(self, observed: Observed, rules: Rules) -> None:
        self.found: list[Violation] = []
        self.missing = Missing()
        self._observed = observed
        self._rules = rules
        self._by_topic: dict[str, list[Message]] = defaultdict(list)
        for message in observed.messages.values():
            self._by_topic[message.topic].append(message)
        self._uncertain = _any_of(rules.uncertain)
        self._discarding = _any_of(rules.discarding)
        self._discardable: set[str] = set()
        self._changing = {group for session in observed.sessions if session.ended for group in session.groups()}

    def check(self) -> None:
        """Look at everything."""
        observed = self._observed
        self.found += [Violation("protocol", "a client", breach) for breach in observed.breaches]
        unanswered = [m.id for m in observed.messages.values() if m.qos and m.sent and not m.outcome]
        if unanswered:
            self._report("FC-21 answered", "publishers", "PUBLISHes without an answer", unanswered)
        for session in observed.sessions:
            self._check_session(session)
        for group in sorted({group for session in observed.sessions for group in session.groups()}):
            self._check_group(group, [s for s in observed.sessions if s.shared_qos_of(group) >= 0])
        self.missing.discardable = len(self._discardable)

    def _report(self, promise: str, who: str, detail: str, ids: Iterable[str]) -> None:
        self.found.append(Violation(promise, who, detail, tuple(ids)))

    # -- a session

    def _check_session(self, session: Seen) -> None:
        who = session.client_id
        unknown, wrong = [], []
        for receipt in session.receipts:
            message = self._observed.messages.get((receipt.publisher, receipt.number))
            name = f"{receipt.publisher}:{receipt.number}"
            if message is None or message.topic != receipt.topic:
                unknown.append(name)
            elif receipt.qos not in self._qos_of(session, message):
                wrong.append(f"{name} ({message.topic}, {message.qos}, came at {receipt.qos})")
        if unknown:
            self._report("content", who, "nobody has published it, or not to this topic", unknown)
            return
        if wrong:
            text = f"at a QoS that is not the lower of the message's and the subscription's, {session.filters}"
            self._report("QoS", who, text, wrong)
        self._check_copies(who, session.receipts, shared=False)
        self._check_order(session)
        if not session.ended:
            self._check_loss(session)

    def _qos_of(self, session: Seen, message: Message) -> set[int]:
        own = session.qos_of(message.topic)
        found = {min(own, message.qos)} if own >= 0 else set()
        for group in session.groups():
            if group_matches(group, message.topic):
                shared = min(session.shared_qos_of(group), message.qos)
                found.add(shared)
                if shared == 2 and self._changes(group):
                    found.add(1)  # FC-13: from somebody who took it at QoS 1 and has ended its session
        return found

    def _check_copies(self, who: str, receipts: list[Receipt], *, shared: bool) -> None:
        """No duplicate at QoS 2, and otherwise no more than the times that the message was routed (FC-8, FC-21)."""
        completed: Counter[tuple[int, int]] = Counter()
        fresh: Counter[tuple[int, int]] = Counter()
        handed_on: set[tuple[int, int]] = set()  # FC-13: when a session ends, another gets its QoS 1 as new
        for receipt in receipts:
            key = receipt.publisher, receipt.number
            if receipt.qos == 2:
                completed[key] += not receipt.again
            if not receipt.dup:
                fresh[key] += 1
            if shared and receipt.qos == 1:
                handed_on.add(key)
        twice = [_name(key) for key, count in completed.items() if count > 1]
        if twice:
            self._report("exactly once", who, "QoS 2 more than once", twice)
        often = []
        for key, count in fresh.items():
            message = self._observed.messages[key]
            most = message.sent + self._rules.restarts if message.qos == 1 else 1
            if key not in handed_on and count > most:
                often.append(_name(key))
        if often:
            self._report("FC-8 DUP", who, "sent as new more often than it was published", often)

    # -- order

    def _check_order(self, session: Seen) -> None:
        """FC-9, of what has come for the first time."""
        lines: dict[object, list[Receipt]] = defaultdict(list)
        known: set[tuple[int, int]] = set()
        for receipt in session.receipts:
            key = receipt.publisher, receipt.number
            if key in known or self._out_of_line(session, receipt):
                continue
            known.add(key)
            lines[receipt.publisher, receipt.topic, receipt.qos].append(receipt)
            if self._rules.one_at_a_time and receipt.qos and session.qos_of(receipt.topic) >= 0:
                lines[receipt.publisher].append(receipt)
        for line, receipts in lines.items():
            early = [
                f"{_name(earlier[:2])} before {_name(later[:2])}"
                for earlier, later in pairwise(receipts)
                if earlier.number > later.number
            ]
            if early:
                self._report("FC-9 order", session.client_id, f"publisher, topic, QoS {line}", early)

    def _out_of_line(self, session: Seen, receipt: Receipt) -> bool:
        """Whether the rules promise no place in the order."""
        message = self._observed.messages[receipt.publisher, receipt.number]
        if message.sent > 1 and (not self._rules.lossless or self._uncertain(message.topic)):
            return True
        if session.qos_of(message.topic) >= 0:
            return False
        # A group: what a session leaves behind when it ends comes to others late.
        return any(self._changes(group) for group in session.groups())

    def _changes(self, group: str) -> bool:
        """Whether members of a group have ended their sessions."""
        return group in self._changing

    # -- loss

    def _check_loss(self, session: Seen) -> None:
        """What was acknowledged to its publisher since the session is subscribed has come."""
        come = {(receipt.publisher, receipt.number) for receipt in session.receipts}
        counts = Lost(session)
        lost = []
        for topic, messages in self._by_topic.items():
            own = session.qos_of(topic)
            if own < 0:
                continue
            for message in messages:
                routed = message.sent if message.qos == 1 else min(message.sent, 1)
                counts.perhaps[min(own, message.qos)] += routed - (_key(message) in come)
            if own > 0:
                lost += [m for m in self._promised(messages, session.subscribed_at) if _key(m) not in come]
        lost = self._not_discarded(lost)
        if self._rules.lossless and lost:
            self._report("no loss", session.client_id, "acknowledged, but not received", [m.id for m in lost])
        for message in lost:
            counts.surely[min(session.qos_of(message.topic), message.qos)] += 1
        if session.kept:
            self.missing.sessions.append(counts)

    def _promised(self, messages: list[Message], since: float) -> Iterable[Message]:
        return (m for m in messages if m.qos and m.outcome == ACKNOWLEDGED and m.first_sent_at > since)

    def _not_discarded(self, lost: list[Message]) -> list[Message]:
        self._discardable |= {m.id for m in lost if self._discarding(m.topic)}
        return [m for m in lost if not self._discarding(m.topic)]

    # -- groups

    def _check_group(self, group: str, members: list[Seen]) -> None:
        """FC-13: each message to one member, and to one for sure."""
        receipts = [r for member in members for r in member.receipts if group_matches(group, r.topic)]
        known = [r for r in receipts if (r.publisher, r.number) in self._observed.messages]
        self._check_copies(group, known, shared=True)
        stays = [member for member in members if not member.ended and member.kept]
        lossy = any(member.shared_qos_of(group) == 0 for member in members)
        if not stays or lossy or not self._rules.lossless:
            return
        since = min(member.subscribed_at for member in stays)
        come = {(receipt.publisher, receipt.number) for receipt in receipts}
        # QoS 2 that an ended session has not acknowledged goes to nobody else [MQTT-4.8.2-5].
        most = 1 if any(member.ended and member.shared_qos_of(group) == 2 for member in members) else 2
        lost = []
        for topic, messages in self._by_topic.items():
            if group_matches(group, topic):
                lost += [m for m in self._promised(messages, since) if m.qos <= most and _key(m) not in come]
        lost = self._not_discarded(lost)
        if lost:
            self._report("FC-13 no loss", group, "acknowledged, but no member has received it", [m.id for m in lost])


def _key(message: Message) -> tuple[int, int]:
    return message.publisher, message.number


def _name(key: tuple[int, int]) -> str:
    return f"{key[0]}:{key[1]}"


def _any_of(filters: tuple[str, ...]) -> Callable[[str], bool]:
    @cache
    def matching(topic: str) -> bool:
        return any(matches(topic_filter, topic) for topic_filter in filters)

    return matching
