"""Groups, their members and the models of both side by side (FC-13): who gets what is compared, and the books."""

from collections import deque
from functools import partial
from random import Random

from broker.storage.journal import Journal
from protocol.subscribe import Subscription
from session.shared_queue import SharedQueue
from tests.model import moves
from tests.model.compare import compare_pacing, compare_queue
from tests.model.group import Group, Member
from tests.model.knobs import Knobs
from tests.model.message import Message
from tests.model.moves import EXPIRIES, SIZES, TOPICS, WAITS
from tests.model.pair import START
from tests.model.real import limits_of, publish_of, text_of
from tests.model.source import OtherSource, Part, Source, flow_of, pass_time
from tests.model.world import World
from tests.support.session.host import NotingHost

MOST_MEMBERS = 4
OFTEN = {
    moves.publish: 2, moves.burst: 0.5, moves.run_pass: 6, moves.run: 10, moves.stall: 2, moves.resume: 4,
    moves.disconnect: 1, moves.reconnect: 1, moves.chunk: 20, moves.catch_up: 8, moves.end_interval: 1,
}  # fmt: skip
"""What a member that is online does, and how often, relatively."""


class MemberWorld(World):
    """A session that may share with groups, and its model."""

    model_type = Member

    @property
    def member(self) -> Member:
        """The model."""
        assert isinstance(self.model, Member)
        return self.model


class SharedWorld:
    """A group and its model."""

    def __init__(self, model: Group, knobs: Knobs, name: str) -> None:
        self.name = name
        self.host = NotingHost()
        self.model = model
        self.real = SharedQueue(f"$share/{name}/#", limits_of(knobs), self.host)
        self.journal: Journal | None = None
        """Where what has to survive is written (FC-27)."""
        self.count = 0
        self.keyed = knobs.keyed
        self.sent: list[tuple[object, str, int]] = []
        """Publisher, topic and QoS of each message, by the number in its text."""
        self.first_sent: dict[tuple[object, str, int], dict[int, None]] = {}
        """The numbers of those that have been sent, in that order."""

    def deliver(self, qos: int, size: int, topic: str, expiry: int, now: int, source: Source | None) -> str:
        """A message comes for the group; returns its text."""
        text = f"{self.name}{self.count}"
        self.count += 1
        payload = text.encode().ljust(size, b".")
        message = Message(text, topic, qos, payload, now, expiry, flow_of(source), number=self.count)
        self.sent.append((message.flow, topic, qos))
        if source is not None and qos and self.model.telling.applies():
            lacks = self.model.lacks_room(message, now)
            found = self.real.lacking(publish_of(message), True, now) is not None
            assert lacks == found, f"{text}: whether it lacks room: {lacks}, and {found}"
            if lacks:
                return text  # FC-34: nobody gets it
        self.model.deliver(message, now, source.model if source is not None else None)
        publish = publish_of(message)
        if self.journal is not None:
            self.journal.begin(publish, "")
        self.real.deliver(publish, source.real.outbound if source is not None else None, now)
        if self.journal is not None:
            self.journal.end()
        return text

    def join(self, peer: MemberWorld, qos: int) -> None:
        """A session subscribes."""
        self.model.join(peer.member, qos)
        self.real.add(peer.real.outbound, Subscription(self.real.name, qos))

    def leave(self, peer: MemberWorld) -> None:
        """It does no longer."""
        if peer.member in self.model.members:
            self.model.leave(peer.member)
            self.real.remove(peer.real.outbound)

    def check(self, sources: list[Source]) -> None:
        """Compare what waits, whom it holds back, and the books."""
        compare_pacing(self.model.pacer, self.real._pacing, sources)
        assert self.model.reports == self.host.reports
        compare_queue(self.model.mqueue, self.model.books, self.real.mqueue, self.real.counters)

    def check_keys(self, peers: list[MemberWorld]) -> None:
        """FC-33: a flow is unacknowledged at one session only, and first sent in the order of publishing."""
        holders: dict[object, MemberWorld] = {}
        for peer in peers if self.keyed else []:
            sender = peer.real.outbound.sender
            for packet_id, inflight in sender.window.entries.items():
                if (sender.sources or {}).get(packet_id) is not self.real:
                    continue
                number = int(text_of(inflight.publish)[1:])
                kind = self.sent[number]
                assert holders.setdefault(kind[0], peer) is peer, f"{self.name}{number}: two sessions have its flow"
                first = self.first_sent.setdefault(kind, {})
                assert number in first or not first or number > next(reversed(first)), f"{self.name}{number}: late"
                first[number] = None


class GroupWorld:
    """Two groups and some sessions that share with one or both."""

    group_type: type[Group] = Group

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.log: deque[str] = deque([repr(knobs)], maxlen=10_000)
        self.now = START
        self.born = 0
        self.others = [OtherSource(name, knobs, START) for name in ("p", "q")]
        self.sources: list[Source] = [*self.others]
        """All who publish, the members too."""
        self.groups = [SharedWorld(self.group_type(knobs, START), knobs, name) for name in ("g", "h")]
        self.peers: list[MemberWorld] = []
        self.ended = False

    def close(self) -> None:
        """The world is not needed any more."""

    def story(self) -> str:
        """What has happened, the last of it."""
        return "\n".join([self.log[0], "...", *list(self.log)[-80:]])

    def check(self) -> None:
        """All must agree."""
        for peer in self.peers:
            peer.check()
        for shared in self.groups:
            shared.check(self.sources)
            shared.check_keys(self.peers)

    # -- what may happen

    def publish(self, rng: Random) -> None:
        """Messages come for a group, a few or many, before any session makes a pass."""
        shared = rng.choice(self.groups)
        large = rng.random() < 0.1
        for _ in range(rng.randint(1, 12) if not large else rng.randint(70, 120)):
            topic, expiry = rng.choice(TOPICS), rng.choice(EXPIRIES)
            size = 1_024 - 5 - len(topic) if large else rng.choice(SIZES)
            qos = 0 if large else rng.randint(0, 2)
            source = moves.any_source(self.sources, rng)
            targets: list[SharedWorld | MemberWorld] = [shared] if rng.random() < 0.9 else [*self.groups, *self.peers]
            deliver = partial(self._deliver, targets, (qos, size, topic, expiry), source)
            if source is None:
                deliver()
            else:
                source.send(deliver)

    def _deliver(
        self, targets: list[SharedWorld | MemberWorld], kind: tuple[int, int, str, int], source: Source | None
    ) -> None:
        """One PUBLISH is routed, to a group or to all that there is."""
        for target in targets:
            if isinstance(target, MemberWorld):
                target.route(*kind, source)
                continue
            text = target.deliver(*kind, self.now, source)
            who = source.name if source is not None else "nobody"
            self.log.append(f"group {target.name} {text} from {who}: {kind}")

    def join(self, rng: Random) -> None:
        """A session, new or not, subscribes, or changes its subscription."""
        if len(self.peers) < MOST_MEMBERS and rng.random() < 0.6:
            peer = self.new_peer(f"[{self.born}] ")
            self.born += 1
            peer.log = self.log
            self.peers.append(peer)
            moves.connect(peer, rng)
        if self.peers:
            peer, shared, qos = rng.choice(self.peers), rng.choice(self.groups), rng.randint(0, 2)
            peer.note(f"joins {shared.name} with QoS {qos}")
            shared.join(peer, qos)
            if peer.model.connected:
                peer.end_chunk()

    def new_peer(self, name: str) -> MemberWorld:
        """A new session."""
        return MemberWorld(self.knobs, self.now, name, self.sources)

    def leave(self, rng: Random) -> None:
        """A session unsubscribes."""
        if self.peers:
            peer, shared = rng.choice(self.peers), rng.choice(self.groups)
            peer.note(f"leaves {shared.name}")
            shared.leave(peer)

    def end(self, rng: Random) -> None:
        """A session ends; its connection has gone before, or goes with it."""
        if self.peers:
            peer = self.peers.pop(rng.randrange(len(self.peers)))
            if peer.model.connected and rng.random() < 0.5:
                peer.disconnect()
            self.end_session(peer)

    def end_session(self, peer: MemberWorld) -> None:
        """It is over."""
        for shared in self.groups:
            shared.leave(peer)
        peer.end()
        self.sources.remove(peer.own)

    def member(self, rng: Random) -> None:
        """Something happens to one of the sessions."""
        if not self.peers:
            return
        peer = rng.choice(self.peers)
        if peer.model.connected:
            rng.choices(list(OFTEN), list(OFTEN.values()))[0](peer, rng)
        elif rng.random() < 0.5:
            moves.connect(peer, rng)
        else:
            moves.publish(peer, rng)

    def run(self, rng: Random) -> None:
        """All sessions make passes until they have nothing to do."""
        for peer in self.peers:
            peer.run()

    def wait(self, rng: Random) -> None:
        """Time passes for all."""
        microseconds, late = rng.choice(WAITS), rng.random() < 0.3
        parts: list[Part] = [self, *self.peers, *self.others]
        self.log.append(f"wait {microseconds} us, timers {'late' if late else 'on time'}")
        pass_time(parts, self.now, self.now + microseconds, late)
        for source in self.sources:
            source.late += microseconds * late
        for peer in self.peers:
            if late and rng.random() < 0.7:
                peer.fire()
        for other in self.others:
            if late:
                other.fire()

    # -- the clock of the groups, which have no timers

    def timer_at(self) -> int:
        """Never."""
        return 0

    def tick(self, now: int) -> None:
        """Time passes."""
        self.now = now
        for shared in self.groups:
            shared.model.pacer.tick(now)

    def fire(self) -> None:
        """Nothing fires."""

    def come_and_go(self, rng: Random) -> None:
        """A publisher goes, or comes."""
        moves.come_or_go(rng.choice(self.others))


def play(world: GroupWorld, rng: Random) -> None:
    """Make one move, then compare."""
    often = {
        world.publish: 15, world.member: 45, world.run: 10, world.wait: 8, world.join: 3, world.leave: 0.5,
        world.end: 0.7, world.come_and_go: 0.5,
    }  # fmt: skip
    rng.choices(list(often), list(often.values()))[0](rng)
    world.check()
