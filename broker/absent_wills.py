"""Wills of clients that were connected when the broker failed: published after a grace, unless they are back (FC-27).

The standard lets a server that has failed defer them until it has restarted [MQTT-3.1.2-8].
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from broker.auth.identity import Identity
from broker.clients import Client
from broker.runtime.clock import SECOND
from broker.runtime.timers import Timer
from broker.storage.kept_will import KeptWill
from broker.storage.owner import Owner
from protocol.publish import Publish

if TYPE_CHECKING:
    from broker.sessions import Sessions

GRACE: Final = 5 * SECOND
"""Microseconds after the start in which clients may come back."""
SPREAD: Final = 3 * SECOND
"""Microseconds after that over which the wills are spread: there may be one for each client that there was."""


@final
class AbsentWills(Timer):
    """All of them, by client id. As a timer it forgets them when the last one is due."""

    def __init__(self, sessions: "Sessions", restore: Callable[[Client, int, Owner | None], None]) -> None:
        """`restore` gives a client the rights and quotas that it had, by its protocol level and owner."""
        self._sessions = sessions
        self._restore = restore
        self._ended: dict[str, AbsentWill] = {}
        """Of clients whose sessions have ended with the process before."""
        self._kept: dict[str, tuple[Client, Publish]] = {}
        """Of clients with kept sessions."""

    def add(self, kept: KeptWill, publish: Publish) -> None:
        """A client whose session has ended had this will."""
        older = self._ended.get(kept.client_id)
        if older is not None:  # in a journal that was salvaged
            older.kept.end()
        self._ended[kept.client_id] = AbsentWill(self, kept, publish)

    def add_kept(self, client: Client, publish: Publish) -> None:
        """A client with a kept session had this will, with a delay that is shorter than the grace."""
        self._kept[client.session.client_id] = client, publish

    def start(self, now: int) -> None:
        """Wait for the clients from now on."""
        wheel = self._sessions.wheel
        count = len(self._ended) + len(self._kept)
        at = now + GRACE
        for number, will in enumerate(self._ended.values()):
            wheel.add(at + SPREAD * number // count, will)
        for number, (client, publish) in enumerate(self._kept.values(), len(self._ended)):
            self._sessions.wills.delay(client, publish, at + SPREAD * number // count)
        if count:
            self._sessions.on_back = self.back
            wheel.add(at + SPREAD, self)

    def due(self, now: int) -> None:
        """All have been published."""
        self._sessions.on_back = None

    def back(self, client_id: str, identity: Identity | None, now: int) -> None:
        """A client has connected, by a clean start or not: its will is not published.

        If it is another user's client, the will is: its own client has not come back.
        """
        kept = self._kept.pop(client_id, None)
        if kept is not None and kept[0].belongs_to(identity):
            kept[0].will = None
        absent = self._ended.get(client_id)
        if absent is None:
            return
        owner = absent.kept.owner
        if owner is None or owner.user == (None if identity is None else identity.user):
            del self._ended[client_id]
            absent.kept.end()
        else:
            self.publish(absent, now)

    def waits_for(self, absent: "AbsentWill") -> bool:
        """Whether the client has not come back, and the will is not published."""
        return self._ended.get(absent.kept.client_id) is absent

    def publish(self, absent: "AbsentWill", now: int) -> None:
        """Publish a will as its client's, which has a session for so long. One commit has the will and its end."""
        sessions, kept = self._sessions, absent.kept
        del self._ended[kept.client_id]
        if sessions.clients.get(kept.client_id) is not None:  # in a journal that was salvaged
            kept.end()
            return
        client = sessions.new(kept.client_id, now)
        client.kept_will = kept
        self._restore(client, kept.level, kept.owner)
        sessions.wills.publish(client, absent.publish, now)
        sessions.end(client, now)


@final
class AbsentWill(Timer):
    """The will of one client, whose session has ended."""

    def __init__(self, all_of_them: AbsentWills, kept: KeptWill, publish: Publish) -> None:
        self.kept = kept
        self.publish = publish
        self._all = all_of_them

    def wanted(self) -> bool:
        """False if the client has come back."""
        return self._all.waits_for(self)

    def due(self, now: int) -> None:
        """Publish it."""
        if self.wanted():
            self._all.publish(self, now)
