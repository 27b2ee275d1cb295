"""Incomplete packets of clients that have a session: beyond the memory watermark they hold little together (FC-32)."""

from typing import Final, final

from broker.connection.newcomers import LITTLE
from broker.connection.peer import Peer
from broker.quotas.quotas import Quotas
from broker.quotas.watermark import MEMORY
from protocol import reason_codes

SHARE: Final = 16
"""Beyond the watermark they may hold one part in so many of it."""
FEW: Final = 4 * 1024 * 1024
"""Up to so many bytes of all together are not counted anew."""
REASON: Final = "the memory is above memory_watermark, and incomplete packets have too much of it"


@final
class IncompletePackets:
    """Those of all connections.

    Beyond the watermark connections are closed, first the one that has sent nothing for the longest time: a client
    whose link is slow goes on sending. Below it nobody is.
    """

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._held: dict[Peer, int] = {}
        """Bytes when they were counted; the connection that has been read last is at the end."""
        self._total = 0
        """The sum: no less than is held, because some of the packets may be complete by now."""
        self._enough = FEW
        """Past this sum they are counted anew."""

    @property
    def total(self) -> int:
        """Bytes that are counted."""
        return self._total

    def note(self, connection: Peer, now: int) -> None:
        """What has been read from a connection ends inside a packet."""
        self._count(connection, self._held.pop(connection, 0))
        if self._total > self._enough:
            self.look(now)

    def look(self, now: int) -> None:
        """Count anew, and close connections if the memory is above the watermark."""
        for connection, before in list(self._held.items()):
            self._count(connection, before)
        watermark = self._quotas.watermark
        share = watermark.high // SHARE
        if watermark.reached and share:
            while self._total > share:
                self._close(next(iter(self._held)), now)
        self._enough = 2 * max(self._total, share, FEW // 2)

    def release(self, connection: Peer) -> None:
        """It is closing, and has given back what its client has sent."""
        self._total -= self._held.pop(connection, 0)

    def _count(self, connection: Peer, before: int) -> None:
        held = connection.socket.incomplete()
        if held > LITTLE:
            self._held[connection] = held
        else:
            self._held.pop(connection, None)
            held = 0
        self._total += held - before

    def _close(self, connection: Peer, now: int) -> None:
        self.release(connection)
        self._quotas.note(connection.client, MEMORY, 0, now)
        connection.close(reason_codes.QUOTA_EXCEEDED, REASON)
        if connection.socket.incomplete():
            connection.abort()  # a frame of WebSocket: it would be held until the client has closed, too
