"""The interface of a client's connection for the packages below it, and the reasons to pause reading."""

from typing import Final

from mypy_extensions import i64, u8

from broker.disconnects import LOST
from protocol import reason_codes
from session.host import Host

QUEUED: Final = 1
"""Sessions have to run first: the rest of the chunk is in the decoder until the run queue calls `handle_rest`."""
UNDRAINED: Final = 2
"""The client has to drain its deliveries first (FC-15)."""
RATE: Final = 4
"""The client's publish rate is used up (FC-23)."""
PARKED: Final = 8
"""The session's producer window is used up (FC-25)."""
CLOSED: Final = 16
"""The connection is closing: further input is ignored."""
PACED: Final = 32
"""The client is paced, and the limit of what is held back is reached (FC-16)."""
COMMIT: Final = 64
"""Too much waits for a commit of the journal (FC-27)."""
AUTHENTICATING: Final = 128
"""The chain of authenticators has been asked about the client's CONNECT."""
MEMORY: Final = 256
"""The client has published while the process is above its memory watermark (FC-32)."""


class Endpoint(Host):
    """Runs one client's session while the client is connected."""

    def __init__(self) -> None:
        self.closing = False  # beside `awake`: booleans that follow each other share eight bytes
        """Whether further input of the client is ignored."""
        self.ended = False
        """Whether the stream from the client has ended."""
        self.paced = False
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

    def pause_reading(self, reason: int, now: int) -> None:
        """Stop reading; what has been read already stays in the decoder."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def resume_reading(self, reason: int) -> None:
        """Clear a reason. If it was the last one, the run queue resumes reading."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def limit_rate(self, now: int) -> None:
        """The client's publish rate may have another limit now (FC-31)."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def handle_rest(self, now: int) -> None:
        """Handle the rest of the chunk."""
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
