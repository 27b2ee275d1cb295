"""The interface of a connection's socket, for those who write to it, pause it, or ask who is at its other end."""

import asyncio
from typing import Any

from broker.runtime.origin import Origin
from session.session import Session


class Socket:
    """Bytes in and out. As it is here it is closed: the only other one is `ClientSocket`."""

    def __init__(self, origin: Origin | None = None) -> None:
        """`origin`: of a client behind a trusted proxy, or of one that another cell has accepted."""
        self.transport: asyncio.Transport | None = None
        """None before it is open, and once it is closed."""
        self.origin = origin

    def write(self, data: bytes) -> None:
        """Write at once, ahead of what is in the outbox; but behind what waits for a commit (FC-27)."""

    def flush(self, session: Session) -> None:
        """Write the session's outbox."""

    def hold_until(self, commit: int) -> None:
        """Write nothing more until this commit of the journal has returned."""

    def on_commit(self) -> None:
        """A commit of the journal has returned that `hold_until` or the outbox has named: write what waited (FC-27)."""

    def congest_at(self, size: int) -> None:
        """The send path is congested with more than so many bytes in the transport (FC-3)."""

    def stop_reading(self, now: int) -> None:
        """Read nothing more."""

    def start_reading(self, now: int) -> None:
        """Read again."""

    def close(self, now: int, reason_sent: bool) -> None:
        """Close once what is left has been written. `reason_sent`: the other end gets the time to read the last."""

    def abort(self) -> None:
        """Close at once, without writing what is left."""

    def leave(self, now: int) -> None:
        """Leave the transport, open as it is, to somebody else: the connection has ended."""

    def held(self) -> int:
        """Bytes received that no complete packet has come of, also those below MQTT."""
        return 0

    def incomplete(self) -> int:
        """Bytes of one incomplete packet, also those below MQTT, but nothing that waits."""
        return 0

    def host(self) -> str:
        """The client's address without its port; empty if it is unknown."""
        return ""

    def certificate(self) -> dict[str, Any]:
        """The client's, which has been verified, as `SSLObject.getpeercert` returns it; empty if there is none."""
        return {} if self.origin is None else self.origin.certificate or {}
