"""CL-5: clients of this cell that are held back for queues of another one (FC-16)."""

from typing import Final, final

from broker.clients import Client, Clients
from session.pacing import Pacer, Publisher

_NEVER: Final = 1 << 62


@final
class HeldPublishers:
    """Those that one other cell holds back."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._held: dict[int, list[_RemoteQueues]] = {}
        """By publisher: a broker may have several connections."""

    def pause(self, number: int, now: int) -> None:
        """The other cell asks to hold one back."""
        if number in self._held:
            return
        held = [queues for client in self._clients.publishers(number) if (queues := _held_back(client, now))]
        if held:
            self._held[number] = held

    def resume(self, number: int, now: int) -> None:
        """It needs to no longer."""
        for queues in self._held.pop(number, ()):
            queues.end(now)

    def end(self, now: int) -> None:
        """The link is closed."""
        held, self._held = self._held, {}
        for each in held.values():
            for queues in each:
                queues.end(now)


def _held_back(client: Client, now: int) -> "_RemoteQueues | None":
    queues = _RemoteQueues()
    return queues if client.session.outbound.pace(queues, now) else None


@final
class _RemoteQueues(Pacer):
    """All queues of one other cell that pace one client. That cell knows when they have stalled, and for how long."""

    def __init__(self) -> None:
        self._publisher: Publisher | None = None

    def pause(self, publisher: Publisher, now: int) -> bool:
        """Pause the client; False if its patience is used up."""
        if publisher.is_impatient(now):
            return False
        self._publisher = publisher
        publisher.pause(self, now)
        return True

    def resume(self, publisher: Publisher, now: int) -> None:
        """It is not paused any more."""
        self.end(now)

    def end(self, now: int) -> None:
        """Resume it."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.resume(self, now)

    def check(self, now: int) -> None:
        """Nothing to do: the other cell tells when it ends."""

    def ends_at(self, now: int) -> int:
        """Never."""
        return _NEVER
