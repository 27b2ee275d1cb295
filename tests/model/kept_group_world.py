"""Groups of kept sessions on a journal (FC-13, FC-27): now and then the process ends, and the next one goes on."""

from dataclasses import replace
from random import Random
from typing import cast

from broker.storage.kept_group import KeptGroup
from broker.storage.kept_session import KeptSession
from broker.storage.restorer import Restorer, begin
from broker.storage.saved import SavedSession
from session.window import Restored
from tests.model import group_world
from tests.model.disk import Disk, lanes_of
from tests.model.group import Group
from tests.model.group_world import GroupWorld, MemberWorld, SharedWorld
from tests.model.kept import Kept, keep, resume, still_waiting
from tests.model.knobs import Knobs
from tests.model.message import Message
from tests.model.real import Real
from tests.model.source import OtherSource, Source


class KeptMemberWorld(MemberWorld):
    """A kept session that may share with groups."""

    def __init__(self, world: "KeptGroupWorld", name: str) -> None:
        super().__init__(world.knobs, world.now, name, world.sources)
        self.world = world
        self.on_disk = Kept()
        self.kept = KeptSession(world.disk.journal, world.disk.journal.new_queue(), name)
        self.kept.write_state()
        self.real.journal = world.disk.journal
        self.real.session.keep(self.kept, self.kept)

    def flush(self) -> None:
        """Both write, when the disk has what the packets promise."""
        promises = self.real.outbound.sender.outbox.commit > self.world.disk.journal.commits.committed
        super().flush()
        if promises:
            self.world.commit()

    def go_on(self, groups: dict[Group, Group]) -> None:
        """Its model goes on with what is on disk; `groups`: the model of each group, by the one before."""
        now = self.model.now
        window = [replace(each, group=groups.get(cast("Group", each.group))) for each in self.on_disk.window]
        self.model = resume(self.knobs, now, replace(self.on_disk, window=window), self.model_type)
        self.real = Real(self.knobs, now)
        self.own = Source(self.own.name, self.model.publisher, self.real)
        self.sources.append(self.own)
        self.parked = []

    def restore(self, saved: SavedSession) -> list[tuple[Restored, int]]:
        """So does the session; returns what it had from groups, by their numbers."""
        self.kept = KeptSession(self.world.disk.journal, saved.number, saved.client_id)
        self.real.journal = self.world.disk.journal
        return Restorer(self.real.address, self.world.disk.journal.lanes, self.real.now).session(
            self.real.session, self.kept, saved
        )


class KeptGroupWorld(GroupWorld):
    """Two groups, their members, and their journal."""

    def __init__(self, knobs: Knobs) -> None:
        super().__init__(knobs)
        self.disk = Disk(lanes_of(knobs))
        self.on_disk: dict[str, list[Message]] = {}
        """What waits in the groups and has to survive."""
        for shared in self.groups:
            kept = KeptGroup(self.disk.journal, self.disk.journal.new_queue(), shared.name)
            kept.write_state()
            shared.real.journal = kept
            shared.journal = self.disk.journal
        self.commit()

    def close(self) -> None:
        """The world is not needed any more."""
        self.disk.close()

    def commit(self) -> None:
        """The disk has what has happened up to now."""
        self.log.append("commit")
        self.disk.commit()
        self._keep()

    def _keep(self) -> None:
        self.on_disk = {each.name: [m for m in each.model.mqueue.waiting if m.qos] for each in self.groups}
        for peer in self._members():
            peer.on_disk = keep(peer.model)

    def _members(self) -> list[KeptMemberWorld]:
        return [peer for peer in self.peers if isinstance(peer, KeptMemberWorld)]

    def new_peer(self, name: str) -> MemberWorld:
        """A session that is kept."""
        return KeptMemberWorld(self, name)

    def join(self, rng: Random) -> None:
        """SUBACK comes when it is on disk."""
        super().join(rng)
        self.commit()

    def leave(self, rng: Random) -> None:
        """So does UNSUBACK."""
        super().leave(rng)
        self.commit()

    def end_session(self, peer: MemberWorld) -> None:
        """A session is over, in the journal too: the CONNACK of a clean start comes when that is on disk."""
        assert isinstance(peer, KeptMemberWorld)
        peer.kept.end()
        super().end_session(peer)
        self.commit()

    def compact(self, rng: Random) -> None:
        """The oldest part of the journal is removed."""
        self.commit()
        self.log.append("compact")
        self.disk.compact()

    def restart(self, rng: Random) -> None:
        """The process ends, and begins again; if it is killed, what is not on disk is gone."""
        for peer in self.peers:
            if peer.model.connected:
                peer.disconnect()
        killed = rng.random() < 0.6
        if not killed:
            self.commit()
        self.log.append("killed" if killed else "stopped")
        self.others = [OtherSource(other.name, self.knobs, self.now) for other in self.others]
        self.sources[:] = self.others
        saved = {each.client_id or each.group: each for each in self.disk.restart().sessions.values()}
        before, self.groups = self.groups, [self._resume(shared) for shared in self.groups]
        models = {shared.model: again.model for shared, again in zip(before, self.groups, strict=True)}
        pulled: list[tuple[KeptMemberWorld, Restored, int]] = []
        for peer in self._members():
            qos = [shared.model.members.get(peer.member, -1) for shared in before]
            peer.go_on(models)
            pulled += [(peer, restored, number) for restored, number in peer.restore(saved[peer.name])]
            for shared in self.groups:
                shared.model.takers.append(peer.member)
            for shared, own in zip(self.groups, qos, strict=True):
                if own >= 0:
                    shared.join(peer, own)
        for shared in self.groups:
            self._restore(shared, saved[shared.name], pulled)
        self._keep()

    def _resume(self, before: SharedWorld) -> SharedWorld:
        """The model of a group goes on with what is on disk."""
        shared = SharedWorld(self.group_type(self.knobs, self.now), self.knobs, before.name)
        shared.count = before.count
        shared.sent, shared.first_sent = before.sent, before.first_sent
        books = shared.model.books
        for message in still_waiting(self.on_disk[shared.name], self.knobs, self.now):
            shared.model.mqueue.join(message, books, last=True)
            books.count(f"offered_qos{message.qos}")
        for peer in self._members():
            for inflight in peer.on_disk.window:
                if inflight.group is before.model:
                    books.count(f"offered_qos{inflight.message.qos}")
                    books.count(f"sent_qos{inflight.message.qos}")
        return shared

    def _restore(
        self, shared: SharedWorld, saved: SavedSession, pulled: list[tuple[KeptMemberWorld, Restored, int]]
    ) -> None:
        """So does the group."""
        kept = KeptGroup(self.disk.journal, saved.number, shared.name)
        begin(kept, saved)
        shared.journal = self.disk.journal
        Restorer(lambda _: None, self.disk.journal.lanes, self.now).group(shared.real, kept, saved)
        for peer, restored, number in pulled:
            if number == saved.number:
                shared.real.restore_handed_over(restored.publish, peer.real.outbound)
                peer.real.outbound.sender.note_source(restored.packet_id, shared.real)


def play(world: KeptGroupWorld, rng: Random) -> None:
    """Make one move, then compare."""
    own = {world.restart: 3, lambda _: world.commit(): 3, world.compact: 1, None: 93}
    move = rng.choices(list(own), list(own.values()))[0]
    if move is None:
        group_world.play(world, rng)
    else:
        move(rng)
        world.check()
