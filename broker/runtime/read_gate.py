"""Whether a client is read: the reasons not to, in one table.

A reason is a bit. While there is one, nothing is read from the client's socket, and what has been read stays in the
decoder. When the last one ends, the run queue has the rest handled, and then reading resumes.
"""

from typing import Final, final

from mypy_extensions import i16

from broker.runtime.endpoint import Endpoint

QUEUED: Final = 1
"""Sessions have to run first: the rest of the chunk is in the decoder until the run queue calls `handle_rest`."""
UNDRAINED: Final = 2
RATE: Final = 4
PARKED: Final = 8
CLOSED: Final = 16
"""The connection is closing: further input is ignored."""
PACED: Final = 32
COMMIT: Final = 64
AUTHENTICATING: Final = 128
MEMORY: Final = 256

REASONS: Final = {
    UNDRAINED: "the client does not drain its deliveries (FC-15)",
    RATE: "its publish rate is used up (FC-23)",
    PARKED: "its producer window is used up (FC-25)",
    PACED: "publishers are paced, and enough is held back (FC-16)",
    COMMIT: "too much waits for the disk (FC-27)",
    AUTHENTICATING: "its login is checked",
    MEMORY: "the memory watermark is reached (FC-32)",
}
"""Those that operators are told. QUEUED ends in the next turn of the loop, and CLOSED never."""


class Resumer:
    """Resumes reading in later turns of the loop: the run queue."""

    def resume_when_idle(self, gate: "ReadGate") -> None:
        """Handle its rest when no session is awake, or after some turns."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def resume_soon(self, gate: "ReadGate") -> None:
        """Handle its rest in the next turn, even if sessions are awake."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC


_NOBODY: Final = Endpoint()


@final
class ReadGate:
    """The gate of one connection."""

    def __init__(self, endpoint: Endpoint, resumer: Resumer) -> None:
        self.reasons: i16 = 0  # with the two that follow it has eight bytes
        """The sum of the reasons why reading is paused; 0 = it is not."""
        self.closed = False
        """Whether further input of the client is ignored."""
        self.ended = False
        """Whether the stream from the client has ended: no reason keeps what has come from being handled."""
        self.endpoint = endpoint
        self._resumer = resumer

    def close(self) -> None:
        """Ignore further input, and let go of the connection: it holds the gate."""
        self.closed = True
        self.reasons = CLOSED
        self.endpoint = _NOBODY

    def pause(self, reason: int, now: int) -> None:
        """Stop reading; what has been read already stays in the decoder."""
        if self.closed:
            return
        self.reasons |= reason
        self.endpoint.socket.stop_reading(now)

    def resume(self, reason: int) -> None:
        """End a reason. If it was the last one, the run queue resumes reading."""
        if self.reasons & reason:
            self.reasons &= ~reason
            if self.reasons == 0:
                self.reasons = QUEUED
                if reason == UNDRAINED:
                    self._resumer.resume_when_idle(self)
                else:
                    self._resumer.resume_soon(self)

    def end(self) -> None:
        """The stream has ended: from now on no reason keeps what has come from being handled."""
        self.ended = True

    def lift(self, reason: int) -> None:
        """End a reason. Whoever calls this has the rest handled."""
        self.reasons &= ~reason

    def put_off(self, now: int) -> None:
        """Pause until the sessions keep up."""
        self.pause(QUEUED, now)
        self._resumer.resume_when_idle(self)

    def handle_rest(self, now: int) -> None:
        """Handle the rest of the chunk, unless there is another reason not to."""
        if self.closed:
            return
        if self.reasons != QUEUED and not self.ended:
            self.reasons &= ~QUEUED  # when the last other reason ends, it is queued again
            return
        self.reasons = 0
        self.endpoint.handle_packets(now)
        if self.reasons == 0:
            self.endpoint.socket.start_reading(now)
