"""Some rule sets at once in a real broker: each decision against the reference, also while the rules change."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, Final

from paho.mqtt.client import topic_matches_sub

from broker.auth.permissions import Who
from config.rule import Rule
from protocol.connect import Will
from tests.rules.generated import CLIENTS, RuleSet, topic_filter
from tests.rules.peer import DENIED, Delivery, Peer
from tests.support.broker.events import events
from tests.support.broker.logins import NO_LIMITS
from tests.support.broker.reference_rules import allowed
from tests.support.broker.tokens import SECRET, public
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

REFUSED: Final = 0x80
PUBLISHES: Final = 6
"""For each set before the change, and after it."""


def sections(folder: Path) -> dict[str, Any]:
    """The configuration: users by token, clients without a user too, and rules in a file that changes."""
    write(folder / "rules", [])
    key = public(SECRET, folder / "key")
    return {
        "allow_anonymous": True,
        "listeners": [{"name": name, "bind": "127.0.0.1:0"} for name in ("local", "xyz")],
        "authentication": {
            "jwt": {"algorithms": ["HS256"], "key_file": str(key), "roles_claim": "roles"},
            **NO_LIMITS,
        },
        "authorization": {"rules_file": str(folder / "rules"), "default": "deny"},
        "mqtt": {"connect_timeout": "60s"},
        "session": {"overflow_patience": 0},
    }


def write(path: Path, rules: list[Rule]) -> None:
    """Write a file of rules, at once: a half is never read."""
    shown = [rule.model_dump(mode="json", exclude_defaults=True, exclude_none=True) for rule in rules]
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"rules": shown}))
    new.rename(path)


class Played:
    """One rule set with its clients."""

    def __init__(self, own: RuleSet, broker: BrokerProcess, rng: random.Random) -> None:
        self.own = own
        self.decisions = 0
        self._broker = broker
        self._rng = rng
        self._topics = own.topics()
        self._retained: dict[str, bytes] = {}
        self._granted: dict[str, dict[str, int]] = {who.client_id: {} for who in own.clients}
        # The first one may hold up what is for it, so that it waits while the rules change.
        self._peers = [self._open(who, int(who == own.clients[0])) for who in own.clients]
        self._unsure: list[tuple[Who, str, bytes]] = []
        """What has been published while the rules changed."""

    def decide(self, rules: list[Rule]) -> None:
        """Subscriptions, publishes, retained messages and a will are decided as these rules say."""
        self._subscribe(rules)
        expected: dict[str, list[Delivery]] = {who.client_id: [] for who in self.own.clients}
        for _ in range(PUBLISHES):
            peer = self._rng.choice(self._peers)
            topic, payload, qos, retain = self._message()
            code = peer.publish(topic, payload, qos, retain)
            taken = may(rules, peer.who, "publish", topic, qos, retain)
            right = qos == 0 or (code == DENIED) == (not taken)
            self._check(right, f"{peer.who} publishes {topic} {qos} {retain}: {code}")
            self._expect(rules, expected, topic, payload, taken, retain)
        self._leave_a_will(rules, expected)
        for peer in self._peers:
            received, retained = peer.take(len(expected[peer.who.client_id]))
            self._check(sorted(received) == sorted(expected[peer.who.client_id]), f"{peer.who} received {received}")
            self._check(not retained, f"{peer.who} got {retained} without asking")
        self._subscribe(rules)

    def publish_meanwhile(self) -> None:
        """Publish while it is not known which rules are in effect."""
        if not self._unsure:
            self._peers[0].hold()
        peer = self._rng.choice(self._peers[: CLIENTS - 1])
        topic, payload, _, _ = self._message()
        code = peer.publish(topic, payload, 1, False)
        one, two = (may(rules, peer.who, "publish", topic, 1, False) for rules in (self.own.before, self.own.after))
        self._check(not (one and two) if code == DENIED else one or two, f"{peer.who} publishes {topic}: {code}")
        self._unsure.append((peer.who, topic, payload))

    def changed(self) -> None:
        """What has been delivered meanwhile was allowed before or after; what is allowed by both has been delivered."""
        for position, peer in enumerate(self._peers):
            granted = self._granted[peer.who.client_id]
            every = [self._possible(peer.who, publisher, topic) for publisher, topic, _ in self._unsure]
            least = sum(map(min, every))
            received, _ = peer.take(0 if position == 0 else least)
            waited = peer.release(least - len(received)) if position == 0 else []
            for (publisher, topic, payload), copies in zip(self._unsure, every, strict=True):
                late = waited.count((topic, payload))
                came = received.count((topic, payload)) + late
                fine = came <= max(copies) and (came >= min(copies) or peer.disconnected)
                # By now nothing is sent that the rules in effect forbid, whenever it was published.
                fine = fine and late <= self._copies(self.own.after, peer.who, topic)
                self._check(fine, f"{publisher} published {topic}, {peer.who} received it {came} times")
            if peer.disconnected:  # only a member that may not read everything any more
                self._check(position == CLIENTS - 1 and bool(granted), f"{peer.who} was disconnected")
                granted.clear()
                peer.close()
                self._peers[position] = self._open(peer.who)
            elif position == CLIENTS - 1:
                for each, qos in granted.items():
                    self._check(self._reads_all(self.own.after, peer.who, each, qos), f"{peer.who} stays in {each}")
        self._unsure.clear()

    def _possible(self, who: Who, publisher: Who, topic: str) -> list[int]:
        """How often a client may get what has been published meanwhile, by the rules before and after."""
        return [
            self._copies(rules, who, topic) * may(rules, publisher, "publish", topic, 1, False)
            for rules in (self.own.before, self.own.after)
        ]

    def close(self) -> None:
        """End the connections."""
        for peer in self._peers:
            peer.close()

    def _open(self, who: Who, receive_maximum: int = 0) -> Peer:
        peer = Peer(self._broker.address(who.listener), who, receive_maximum=receive_maximum)
        self._check(peer.code == 0, f"{who} is refused: {peer.code}")
        return peer

    def _message(self) -> tuple[str, bytes, int, bool]:
        rng = self._rng
        return rng.choice(self._topics), rng.randbytes(8), rng.randint(0, 2), rng.random() < 0.4

    def _subscribe(self, rules: list[Rule]) -> None:
        """Each client subscribes to something new, and gets what of it is retained."""
        rng = self._rng
        for peer in self._peers[: CLIENTS - 1]:
            granted = self._granted[peer.who.client_id]
            wanted = {topic_filter(self.own.top, rng): rng.randint(0, 2) for _ in range(2)}
            new = [(each, qos) for each, qos in wanted.items() if each not in granted]
            if not new:
                continue
            expected: list[Delivery] = []
            for (each, qos), code in zip(new, peer.subscribe(new), strict=True):
                readable = [topic for topic in self._matching(each) if may(rules, peer.who, "subscribe", topic, qos)]
                self._check(code < REFUSED or not readable, f"{peer.who} may not subscribe to {each} at QoS {qos}")
                if code < REFUSED:
                    granted[each] = qos
                    expected += [(topic, self._retained[topic]) for topic in readable if topic in self._retained]
            _, retained = peer.take(len(expected))
            self._check(sorted(retained) == sorted(expected), f"{peer.who} got {retained} for {new}")
        member = self._peers[-1]
        each, qos = topic_filter(self.own.top, rng), rng.randint(0, 2)
        if each in self._granted[member.who.client_id]:
            return
        (code,) = member.subscribe([(f"$share/g{self.own.number}/{each}", qos)])
        everything = self._reads_all(rules, member.who, each, qos)
        exact = not set(each) & set("+#")
        self._check(code >= REFUSED or everything, f"{member.who} is in a group for {each} at QoS {qos}")
        self._check(code < REFUSED or not (exact and everything), f"{member.who} is not let in a group for {each}")
        if code < REFUSED:
            self._granted[member.who.client_id][each] = qos

    def _leave_a_will(self, rules: list[Rule], expected: dict[str, list[Delivery]]) -> None:
        who = self._rng.choice(self.own.clients)._replace(client_id=f"{self.own.top}-will")
        topic, payload, qos, retain = self._message()
        peer = Peer(self._broker.address(who.listener), who, Will(topic.encode(), payload, qos, retain))
        taken = may(rules, who, "publish", topic, qos, retain)
        self._check(peer.code == (0 if taken else DENIED), f"{who} connects with a will on {topic}: {peer.code}")
        if taken:
            peer.leave_with_will()
            self._expect(rules, expected, topic, payload, taken, retain)
        else:
            peer.close()

    def _expect(
        self,
        rules: list[Rule],
        expected: dict[str, list[Delivery]],
        topic: str,
        payload: bytes,
        taken: bool,
        retain: bool,
    ) -> None:
        if not taken:
            return
        if retain:
            self._retained[topic] = payload
        for who in self.own.clients:
            expected[who.client_id] += [(topic, payload)] * self._copies(rules, who, topic)

    def _copies(self, rules: list[Rule], who: Who, topic: str) -> int:
        """How often a client gets a topic: once by all its subscriptions, but for each group that it is in."""
        matching = sum(
            topic_matches_sub(each, topic) and may(rules, who, "subscribe", topic, qos)
            for each, qos in self._granted[who.client_id].items()
        )
        return matching if who == self.own.clients[-1] else min(1, matching)

    def _reads_all(self, rules: list[Rule], who: Who, topic_filter: str, qos: int) -> bool:
        return all(may(rules, who, "subscribe", topic, qos) for topic in self._matching(topic_filter))

    def _matching(self, topic_filter: str) -> list[str]:
        return [topic for topic in self._topics if topic_matches_sub(topic_filter, topic)]

    def _check(self, right: bool, what: str) -> None:
        self.decisions += 1
        assert right, f"rule set {self.own.number}: {what}\nbefore: {self.own.before}\nafter: {self.own.after}"


def may(rules: list[Rule], who: Who, action: str, topic: str, qos: int, retain: bool = False) -> bool:
    """What the reference says. What no rule is about is denied."""
    return allowed(rules, False, who, action, topic, qos, retain)


def play(broker: BrokerProcess, path: Path, sets: list[RuleSet], rng: random.Random) -> int:
    """Play these sets at once; returns the number of decisions that were compared. AssertionError says what differs."""
    _use(broker, path, [rule for own in sets for rule in own.before])
    played = [Played(own, broker, rng) for own in sets]
    for each in played:
        each.decide(each.own.before)
    for each in played:
        each.publish_meanwhile()
    before = _reads(broker)
    write(path, [rule for own in sets for rule in own.after])
    while not _read_again(broker, before):
        for each in played:
            each.publish_meanwhile()
    for each in played:
        each.publish_meanwhile()
        each.changed()
        each.decide(each.own.after)
        each.close()
    return sum(each.decisions for each in played)


def _use(broker: BrokerProcess, path: Path, rules: list[Rule]) -> None:
    before = _reads(broker)
    write(path, rules)
    wait_until(lambda: _read_again(broker, before), "all cells to read the rules")


def _reads(broker: BrokerProcess) -> Counter[int]:
    """How often each cell has read a file; a single process is cell 0."""
    return Counter(each.get("cell", 0) for each in events(broker, "file_read"))


def _read_again(broker: BrokerProcess, before: Counter[int]) -> bool:
    cells = {each.get("cell", 0) for each in events(broker, "listening")}
    now = _reads(broker)
    return all(now[cell] > before[cell] for cell in cells)
