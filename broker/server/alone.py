"""The only process of a broker. `Membership` is one of several: it has the same methods."""

from collections.abc import Callable

from broker.auth.authenticators.guard import Guard
from broker.broker import Broker
from broker.server.handover import Opened, open_ahead
from broker.server.notify import Notify
from broker.telemetry.host_totals import HostTotals
from config.models import Config


class Alone:
    """Tells the service manager what the process does."""

    shares_listeners = False
    """Whether other processes have the same listeners, so that a reload opens and closes none."""

    totals: HostTotals | None = None
    """Where the totals of all processes are added up; None = this one is all."""

    def __init__(self) -> None:
        self._notify = Notify()

    def open_ahead(self, config: Config) -> Opened:
        """The listeners that are open before the journal is. Raises OSError."""
        return open_ahead(config.listeners, config.persistence.directory)

    def guard(self, config: Config) -> Guard | None:
        """What counts failed logins; None = the broker itself."""
        return None

    async def join(self, broker: Broker, stop: Callable[[], None]) -> None:
        """The broker has its sessions, and no clients yet. `stop` is called if it has to end. Raises OSError."""

    def serves(self) -> None:
        """Clients may connect."""
        self._notify.ready()

    def look(self, now: int) -> None:
        """The event loop turns."""
        self._notify.look(now)

    def stops(self) -> None:
        """The broker stops: clients are about to be disconnected."""
        self._notify.stopping()

    def leave(self) -> None:
        """Clients do not connect any more."""

    async def drain(self) -> None:
        """They are disconnected: have what they have published where it has to be."""
