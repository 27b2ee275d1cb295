"""What the admin API needs of the server."""

from collections.abc import Mapping
from typing import Protocol

from broker.broker import Broker
from broker.server.listeners import Listeners
from broker.server.reload import Changes
from broker.telemetry.totals_walk import TotalsWalk
from config.models import Config


class Managed(Protocol):
    """A running broker with its sockets, as operators see it."""

    broker: Broker
    config: Config
    """What applies now."""
    sources: Mapping[str, str]
    """Where each value of `config` comes from, by dotted key; empty = not known."""
    totals_walk: TotalsWalk
    started_us: int
    """When the process began to be a broker, on the monotonic clock."""
    listeners: Listeners

    async def reload(self) -> Changes:
        """Read the configuration again. Raises ConfigError or OSError, before anything has changed."""

    def unready(self) -> list[str]:
        """Why clients should not be sent to this broker now; empty if they should."""
