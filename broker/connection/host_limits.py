"""Limits that several cells keep to together (broker/cluster). With one cell nobody asks."""

from mypy_extensions import mypyc_attr

from broker.auth.authenticators.turn import Turn
from broker.auth.identity import Identity


@mypyc_attr(allow_interpreted_subclasses=True)
class HostLimits:
    """Asks another process about a client. Its answer is a turn: the client waits for it, and may be refused."""

    def rate(self, host: str) -> Turn | None:
        """Whether one more client may connect from this address now; None = there is no such limit."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def place(self, client_id: str, identity: Identity | None, kept: bool) -> Turn | None:
        """Whether a client may be connected, and its session `kept`; None = nobody has to be asked.

        The place is given back when it is not used after the turn has come.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
