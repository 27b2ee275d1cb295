"""Where a client is served, if the broker has several cells (broker/cluster). Without them nothing asks."""

from broker.connection.peer import Peer
from protocol.connect import Connect


class Homes:
    """Knows the home cell of each client id."""

    def is_here(self, client_id: str) -> bool:
        """Whether this cell serves it."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def new_client_id(self) -> str:
        """One for a client that has sent none; its home is here."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def pass_on(self, connection: Peer, connect: Connect, now: int) -> None:
        """Have the home of this CONNECT serve the connection; nothing of it stays here."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
