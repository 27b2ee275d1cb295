"""The interface of a client's connection for the rooms below it."""

from typing import Final

from mypy_extensions import i64, u8

from broker.disconnects import LOST
from broker.runtime.socket import Socket
from protocol import reason_codes
from session.host import Host

CLOSED_SOCKET: Final = Socket()


class Endpoint(Host):
    """Runs one client's session while the client is connected."""

    def __init__(self) -> None:
        self.paced = False  # beside `awake`: booleans that follow each other share eight bytes
        """Whether the client's PUBLISHes are held back (FC-16)."""
        self.end_logged = False
        self.ends_by: u8 = LOST
        """The reason why the connection ends (broker/disconnects.py), unless something else comes before."""
        self.ran_at: i64 = 0
        """When the session last ran a pass."""
        self.socket = CLOSED_SOCKET

    def handle_packets(self, now: int) -> None:
        """Handle what has been read, or a part of it, and write the answers."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def limit_rate(self, now: int) -> None:
        """The client's publish rate may have another limit now (FC-31)."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def read_to_end(self) -> None:
        """Handle everything received, even if reading is paused."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def run_pass(self, now: int) -> bool:
        """Run one pass of the session and write; returns whether another one has work to do."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def close(
        self,
        reason_code: int = reason_codes.SUCCESS,
        reason: str = "",
        reason_sent: bool = False,
        server_reference: str = "",
    ) -> None:
        """Write what is left, for MQTT 5 also DISCONNECT unless the reason is success, and close.

        The session is detached at once. `reason_sent`: the reason has been written already. `server_reference`: where
        the client is to go.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def abort(self) -> None:
        """Close at once, without writing or handling what is left."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def detach(self, now: int, keep: bool) -> None:
        """Detach the session. It ends if `keep` is False (clean start), or if it may not outlive the connection."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
