"""What the admin API needs of the server."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from broker.broker import Broker
from broker.runtime.loop_delay import LoopDelay
from broker.server.listeners import Listeners
from broker.server.reload import Changes
from broker.telemetry.totals_walk import TotalsWalk
from config.models import Config

if TYPE_CHECKING:
    from broker.bridge.bridges import Bridges
    from broker.telemetry.exporter import Exporter


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
    bridges: "Bridges"
    loop_delay: LoopDelay
    reload_failed: bool
    """Whether the last reload was refused: what applies is not what the files say."""
    exporter: "Exporter | None"

    async def reload(self) -> Changes:
        """Read the configuration again. Raises ConfigError or OSError, before anything has changed."""

    def unready(self) -> list[str]:
        """Why clients should not be sent to this broker now; empty if they should."""

    def expiry(self) -> list[tuple[str, float]]:
        """Whose certificates there are, a listener's or `admin`, and the Unix time until which each is valid."""

    def files_not_read(self) -> int:
        """How many files, or certificates with their keys, are followed and cannot be used now."""
