"""A kept session on a journal (FC-27): now and then its process ends, and the next one goes on with what is on disk."""

from random import Random
from typing import cast

from broker.storage.kept_session import KeptSession
from broker.storage.restorer import Restorer
from tests.model import moves
from tests.model.disk import Disk, lanes_of
from tests.model.kept import Kept, keep, resume
from tests.model.knobs import Knobs
from tests.model.real import Real
from tests.model.source import OtherSource, Source
from tests.model.world import World


class KeptWorld(World):
    """What happens to one kept session, its model and its journal."""

    def __init__(self, knobs: Knobs) -> None:
        super().__init__(knobs)
        self.disk = Disk(lanes_of(knobs))
        self.kept = KeptSession(self.disk.journal, self.disk.journal.new_queue(), "c")
        self.real.journal = self.disk.journal
        self.real.session.keep(self.kept, self.kept)
        self.kept.write_state()
        self.on_disk = Kept()
        """What has to survive, however the process ends."""
        self.commit()

    def close(self) -> None:
        """The world is not needed any more."""
        self.disk.close()

    def commit(self) -> None:
        """The disk has what has happened up to now."""
        self.note("commit")
        self.disk.commit()
        self.on_disk = keep(self.model)

    def flush(self) -> None:
        """Both write, when the disk has what the packets promise."""
        promises = self.real.outbound.sender.outbox.commit > self.disk.journal.commits.committed
        super().flush()
        if promises:
            self.commit()

    def compact(self) -> None:
        """The oldest part of the journal is removed."""
        self.note("compact")
        self.commit()
        self.disk.compact()
        self.on_disk = keep(self.model)

    def end(self) -> None:
        """The session is over, in the journal too."""
        self.kept.end()
        super().end()

    def restart(self, killed: bool) -> None:
        """The process ends, and begins again; what is not on disk is gone if it is `killed`."""
        if self.model.connected:
            self.disconnect()
        if not killed:
            self.commit()
        self.note("killed" if killed else "stopped")
        now = self.model.now
        self.others = [OtherSource(other.name, self.knobs, now) for other in self.others]
        self.model = resume(self.knobs, now, self.on_disk, self.model_type)
        self.real = Real(self.knobs, now)
        self.own = Source("itself", self.model.publisher, self.real)
        self.sources[:] = [*self.others, self.own]
        self.parked = []
        self._restore()
        self.on_disk = keep(self.model)

    def _restore(self) -> None:
        saved = self.disk.restart()
        (session,) = saved.sessions.values()
        real = self.real
        real.journal = self.disk.journal
        self.kept = KeptSession(self.disk.journal, session.number, session.client_id)
        Restorer(real.address, self.disk.journal.lanes, real.now).session(real.session, self.kept, session)


def _restart(world: World, rng: Random) -> None:
    cast("KeptWorld", world).restart(killed=rng.random() < 0.6)


def _commit(world: World, rng: Random) -> None:
    cast("KeptWorld", world).commit()


def _compact(world: World, rng: Random) -> None:
    cast("KeptWorld", world).compact()


def play(world: KeptWorld, rng: Random) -> None:
    """Make one move, then compare."""
    often: dict[moves.Move, float] = {_restart: 2, _commit: 4, _compact: 1, moves.any_move(world, rng): 93}
    rng.choices(list(often), list(often.values()))[0](world, rng)
    world.check()
