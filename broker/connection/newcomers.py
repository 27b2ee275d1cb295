"""Connections whose clients have no session yet: anybody can open them, so they cost a bounded amount of memory."""

from typing import TYPE_CHECKING, Final, final

from broker.settings import Settings
from protocol import reason_codes
from protocol.errors import MQTTError

if TYPE_CHECKING:
    from broker.connection.connection import Connection

MOST_CONNECT: Final = 131_072
"""Bytes of a CONNECT, unless `mqtt.max_packet_size` is less. A will of 64 KiB and a token as password fit in."""
MOST_HELD: Final = 16 * 1024 * 1024
"""The most bytes that the broker holds of all newcomers together, because their packets are incomplete or wait."""
_LITTLE: Final = 1_024
"""Up to so many bytes of a connection are not counted: most CONNECTs are smaller."""
LEAST: Final = 1_000
"""So many newcomers there may be, even if fewer clients may be connected."""


@final
class Newcomers:
    """All of them. Past a limit the oldest one is refused: an honest client soon has its session."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._held: dict[Connection, int] = {}
        """Bytes by connection, the oldest first."""
        self._total = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held(self) -> int:
        """Bytes that are counted."""
        return self._total

    def add(self, connection: "Connection") -> None:
        """A client has opened a connection."""
        self._held[connection] = 0
        most = most_newcomers(self._settings)
        if most and len(self._held) > most:
            self._refuse("too many connections without a session: as many as mqtt.max_connections allows with one")

    def note(self, connection: "Connection") -> None:
        """What it has sent has been handled as far as possible."""
        before = self._held.get(connection)
        if before is None:
            return
        held = connection.held()
        held = held if held > _LITTLE else 0
        self._held[connection] = held
        self._total += held - before
        while self._total > MOST_HELD and self._held:
            self._refuse("too much has been sent by clients without a session")

    def remove(self, connection: "Connection") -> None:
        """It has a session now, or is closed."""
        self._total -= self._held.pop(connection, 0)

    def _refuse(self, reason: str) -> None:
        """Refuse the oldest."""
        oldest = next(iter(self._held))
        self.remove(oldest)
        oldest.fail(MQTTError(reason_codes.QUOTA_EXCEEDED, reason))
        oldest.abort()


def most_of_connect(settings: Settings) -> int:
    """The most bytes that a CONNECT may have."""
    most = settings.max_packet_size
    return min(most, MOST_CONNECT) if most else MOST_CONNECT


def most_newcomers(settings: Settings) -> int:
    """The most clients that may be connected without a session; 0 = any number."""
    return max(settings.max_connections, LEAST) if settings.max_connections else 0
