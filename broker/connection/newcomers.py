"""Connections whose clients have no session yet: anybody can open them, so they cost a bounded amount of memory."""

from typing import Final, final

from broker.connection.peer import Peer
from broker.settings import Settings
from protocol import reason_codes
from protocol.connect import Connect
from protocol.errors import MQTTError
from session.cost import bytes_in

MOST_CONNECT: Final = 131_072
"""Bytes of a CONNECT, unless `mqtt.max_packet_size` is less. A will of 64 KiB and a token as password fit in."""
MOST_HELD: Final = 16 * 1024 * 1024
"""The most bytes that the broker holds of all newcomers together: of packets that are incomplete or wait, and of
CONNECTs that are decided about."""
LITTLE: Final = 1_024
"""Up to so many bytes of a connection are not counted: most CONNECTs are smaller."""
LEAST: Final = 1_000
"""So many newcomers there may be, even if fewer clients may be connected."""


@final
class Newcomers:
    """All of them. Past a limit the oldest one is refused: an honest client soon has its session."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._all: dict[Peer, None] = {}
        """The oldest first."""
        self._held: dict[Peer, int] = {}
        """Bytes of those that are counted, the oldest first."""
        self._connects: dict[Peer, int] = {}
        """The bytes of CONNECTs that are decided about."""
        self._total = 0

    def __len__(self) -> int:
        return len(self._all)

    @property
    def held(self) -> int:
        """Bytes that are counted."""
        return self._total

    def add(self, connection: Peer) -> None:
        """A client has opened a connection."""
        self._all[connection] = None
        most = most_newcomers(self._settings)
        if most and len(self._all) > most:
            oldest = next(iter(self._all))
            self._refuse(
                oldest, "too many connections without a session: as many as mqtt.max_connections allows with one"
            )

    def keep(self, connection: Peer, connect: Connect) -> None:
        """Its CONNECT is kept until it is decided about: `note` follows."""
        self._connects[connection] = _bytes_of(connect)

    def note(self, connection: Peer) -> None:
        """What it has sent has been handled as far as possible."""
        if connection not in self._all:
            return
        held = connection.socket.held() + self._connects.get(connection, 0)
        before = self._held.get(connection, 0)
        if held > LITTLE:
            self._held[connection] = held
        elif before:
            del self._held[connection]
            held = 0
        else:
            return
        self._total += held - before
        while self._total > MOST_HELD:
            self._refuse(next(iter(self._held)), "too much has been sent by clients without a session")

    def remove(self, connection: Peer) -> None:
        """It has a session now, or is closed."""
        self._all.pop(connection, None)
        self.release(connection)

    def release(self, connection: Peer) -> None:
        """It is closing, and has given back what its client has sent."""
        self._connects.pop(connection, None)
        self._total -= self._held.pop(connection, 0)

    def _refuse(self, connection: Peer, reason: str) -> None:
        self.remove(connection)
        connection.fail(MQTTError(reason_codes.QUOTA_EXCEEDED, reason))
        connection.abort()


def _bytes_of(connect: Connect) -> int:
    """The bytes of memory that a CONNECT takes, about: what is in it, and its objects if they are many."""
    count = len(connect.client_id) + len(connect.username or "") + len(connect.password or b"")
    count += bytes_in(connect.properties)
    if connect.will is not None:
        will = connect.will
        count += len(will.topic) + len(will.payload) + bytes_in(will.properties)
    return count


def most_of_connect(settings: Settings) -> int:
    """The most bytes that a CONNECT may have."""
    most = settings.max_packet_size
    return min(most, MOST_CONNECT) if most else MOST_CONNECT


def most_newcomers(settings: Settings) -> int:
    """The most clients that may be connected without a session; 0 = any number."""
    return max(settings.max_connections, LEAST) if settings.max_connections else 0
