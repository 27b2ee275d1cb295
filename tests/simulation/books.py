"""What each client was promised and has got, kept outside of the brokers."""

from collections import Counter, defaultdict
from functools import cache

FAILED = 0x80


@cache
def matches(topic_filter: str, topic: str) -> bool:
    """Whether a filter matches a topic. None of ours begins with `$`."""
    own, levels = topic_filter.split("/"), topic.split("/")
    for index, level in enumerate(own):
        if level == "#":
            return True
        if index >= len(levels) or level not in {"+", levels[index]}:
            return False
    return len(own) == len(levels)


class Sent:
    """A message that a client has published, or has left as its will."""

    def __init__(self, name: str, publisher: str, home: int, topic: str, qos: int, retain: bool) -> None:
        self.name = name
        self.publisher = publisher
        self.home = home
        self.topic = topic
        self.qos = qos
        self.retain = retain
        self.number = 0
        """In the order of its publisher."""
        self.at = 0
        """The step in which it was first sent; 0 = never: a will that nobody has called for."""
        self.sends = 0
        self.acknowledged = 0
        """The step in which the client got PUBACK or PUBREC with success."""
        self.refused = False
        self.promised = False
        """It has to arrive: acknowledged, or a will whose client has gone without DISCONNECT."""
        self.last_known: dict[int, int] = {}
        """The step in which its cell last knew the filters of another one, which it does as long as both live."""
        self.unbroken = True
        """Whether its publisher's connection has held since, or was closed in order."""


class Held:
    """A session, as its client knows it."""

    def __init__(self, client: str, home: int, kept: bool, at: int) -> None:
        self.client = client
        self.home = home
        self.kept = kept
        self.began = at
        self.filters: dict[str, tuple[int, int]] = {}
        """QoS, and the step of the SUBACK that has granted it."""
        self.asked: set[str] = set()
        """All filters that were ever in a SUBSCRIBE."""
        self.broken = at
        """The step in which its connection last began or ended."""
        self.breaks: list[int] = []
        self.ended = False
        self.came: Counter[str] = Counter()
        """PUBLISHes by message, without those that a new subscription got because they were retained."""
        self.retained: Counter[str] = Counter()
        self.came_at_2: Counter[str] = Counter()
        self.newest: dict[tuple[str, str, int, int], int] = {}
        """The number of the last new message by publisher, topic, and both QoS."""


class Books:
    """All messages, sessions and faults; raises nothing: `wrong` says what was."""

    def __init__(self) -> None:
        self.step = 1
        self.sent: dict[str, Sent] = {}
        self.held: list[Held] = []
        self.wrong: list[str] = []
        self.crashes: dict[int, list[int]] = defaultdict(list)
        self.cuts: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.last_ready: dict[tuple[int, int], int] = {}
        self.ready_since: dict[tuple[int, int], int] = {}
        """Since which step a link is known at both ends, by both numbers, the lower one first."""
        self.lossy = False
        """Whether queues may drop QoS 0."""

    def send(self, sent: Sent) -> None:
        """A message is sent for the first time."""
        self.sent[sent.name] = sent
        sent.at = self.step
        for pair, at in self.last_ready.items():
            if sent.home in pair:
                sent.last_known[sum(pair) - sent.home] = self.step if pair in self.ready_since else at

    def break_off(self, publisher: str) -> None:
        """A connection has broken: what was sent on it may be lost."""
        for sent in self.sent.values():
            if sent.publisher == publisher:
                sent.unbroken = False

    def deliver(self, held: Held, name: str, topic: str, qos: int, retain: bool) -> None:
        """A client has got a PUBLISH that is no repetition by its packet id."""
        sent = self.sent.get(name)
        if sent is None or sent.topic != topic or qos > sent.qos:
            self.wrong.append(f"{held.client} got {name!r} on {topic} at QoS {qos}, which nobody has sent")
            return
        if not any(matches(each, topic) for each in held.asked):
            self.wrong.append(f"{held.client} got {name} on {topic}, for which it has never asked")
        if sent.refused and sent.sends == 1:
            self.wrong.append(f"{held.client} got {name}, which was refused")
        if sent.at == 0:
            self.wrong.append(f"{held.client} got {name}, a will that nobody has called for")
        if retain:
            held.retained[name] += 1
            return
        held.came[name] += 1
        if qos == 2:
            held.came_at_2[name] += 1
        if held.came[name] == 1:
            key = (sent.publisher, topic, sent.qos, qos)
            if sent.number < held.newest.get(key, 0) and self._comes_in_order(held, sent, qos):
                self.wrong.append(
                    f"CL-6: {held.client} got {name} at QoS {qos} after number {held.newest[key]} of {sent.publisher}"
                )
            held.newest[key] = max(sent.number, held.newest.get(key, 0))

    def _comes_in_order(self, held: Held, sent: Sent, qos: int) -> bool:
        """Whether the session could not have missed it when it was sent first."""
        known = [(name, each) for name, (each, at) in held.filters.items() if at < sent.at]
        own = [min(qos, each) for name, each in known if matches(name, sent.topic)]
        return bool(own) and (max(own) > 0 or sent.sends == 1)

    # -- when all is at rest

    def check(self) -> None:
        """Compare promises with what has come."""
        for held in self.held:
            self._check_copies(held)
            if not held.ended:
                for sent in self.sent.values():
                    self._check_promise(held, sent)

    def _check_promise(self, held: Held, sent: Sent) -> None:
        granted = [
            min(qos, sent.qos)
            for name, (qos, at) in held.filters.items()
            if at < sent.at and matches(name, sent.topic) and not self._both_crashed(held, sent, at)
        ]
        if not granted or held.came[sent.name] or held.retained[sent.name]:
            return
        if max(granted) and sent.promised:
            self.wrong.append(
                f"CL-3: {held.client} has not got {sent.name} (QoS {sent.qos}, {sent.topic}), sent in step {sent.at}"
                f" and promised in {sent.acknowledged}; its subscriptions are {held.filters}"
            )
        elif sent.at and sent.qos == 0 and self._arrives(held, sent):
            self.wrong.append(f"CL-1: {held.client} has not got {sent.name} (QoS 0, {sent.topic}) of step {sent.at}")

    def _both_crashed(self, held: Held, sent: Sent, granted: int) -> bool:
        """Whether a cell was not there when another one granted a filter, which then was not there to tell it."""
        known = sent.last_known.get(held.home, 0)
        if sent.home == held.home or granted < known:
            return False
        return all(any(known <= at <= sent.at for at in self.crashes[cell]) for cell in (sent.home, held.home))

    def _arrives(self, held: Held, sent: Sent) -> bool:
        """Whether QoS 0 has to arrive: nothing on its way was broken."""
        if self.lossy or not sent.unbroken or held.broken >= sent.at:
            return False
        if any(at >= sent.at for cell in (sent.home, held.home) for at in self.crashes[cell]):
            return False
        return sent.home == held.home or self.ready_since.get(_pair(sent.home, held.home), 1 << 60) < sent.at

    def _check_copies(self, held: Held) -> None:
        for name, count in held.came.items():
            sent = self.sent[name]
            most = 1 if sent.qos == 0 else self._most(held, sent)
            if count > most or held.came_at_2[name] > 1:
                self.wrong.append(
                    f"CL-2: {held.client} got {name} (QoS {sent.qos}, {sent.topic}) {count} times,"
                    f" {held.came_at_2[name]} of them at QoS 2; {most} can be explained"
                )

    def _most(self, held: Held, sent: Sent) -> int:
        """How often a message may come at QoS 1: routed again after each fault before it, resent after each behind.

        The CONNECT of a process that was killed before may be read late. It then displaces the link of the next one.
        """
        crashes = [*self.crashes[sent.home], *self.crashes[held.home]]
        faults = [*crashes, *self.cuts[_pair(sent.home, held.home)]]
        resent = [*held.breaks, *self.crashes[held.home]]
        most = max(1, sent.sends)
        if sent.home != held.home and any(at < sent.at for at in crashes):
            faults.append(sent.at)
        for events in (faults, resent):
            most *= 1 + sum(at >= sent.at for at in events)
        return most

    def admissible(self, topic: str) -> set[str]:
        """Names of the messages of which one may be retained now; empty = any, or none."""
        own = [each for each in self.sent.values() if each.topic == topic and each.retain and each.at]
        known = [each for each in own if each.acknowledged]
        newest = max((each.at for each in known), default=0)
        return {
            each.name
            for each in own
            if each.at == newest or not any(other.at > (each.acknowledged or 1 << 60) for other in known)
        }


def _pair(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)
