"""The interface of a client's connection for the rooms below it."""

from mypy_extensions import i64, u8

from broker.disconnects import LOST
from protocol import reason_codes
from session.host import Host


class Endpoint(Host):
    """Runs one client's session while the client is connected."""

    def __init__(self) -> None:
        self.paced = False  # beside `awake`: booleans that follow each other share eight bytes
        """Whether the client's PUBLISHes are held back (FC-16)."""
        self.end_logged = False
        self.close_when_committed = False
        """Whether the socket is to be closed when the last commit of the journal has returned (FC-27)."""
        self.reason_was_sent = False
        """Whether the reason of that is among what waits."""
        self.ends_by: u8 = LOST
        """The reason why the connection ends (broker/disconnects.py), unless something else comes before."""
        self.ran_at: i64 = 0
        """When the session last ran a pass."""

    def handle_packets(self, now: int) -> None:
        """Handle what has been read, or a part of it, and write the answers."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def stop_reading(self, now: int) -> None:
        """Read nothing more from the socket."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def start_reading(self, now: int) -> None:
        """Read from the socket again."""
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

    def on_commit(self) -> None:
        """A commit of the journal has returned that `hold_until` or the outbox has named (FC-27)."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def hold_until(self, commit: int) -> None:
        """Write nothing more until this commit of the journal has returned."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def close(self, reason_code: int = reason_codes.SUCCESS, reason: str = "", reason_sent: bool = False) -> None:
        """Write what is left and the reason, and close. `reason_sent`: the reason has been written already."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def abort(self) -> None:
        """Close at once, without writing or handling what is left."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def detach(self, now: int, keep: bool) -> None:
        """Detach the session. It ends if `keep` is False (clean start), or if it may not outlive the connection."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
