"""The objects that all connections on one side of MQTT share, so that each connection is small."""

from typing import final

from broker.addresses.policy import Addresses
from broker.connection.connections import Connections
from broker.connection.incomplete import IncompletePackets
from broker.connection.newcomers import Newcomers
from broker.connection.side import PublishHandler, Side
from broker.connection.timers import ConnectionDeadlines, abort, end_lingering
from broker.events import Events
from broker.routing.router import Router
from broker.runtime.barrier import Barrier
from broker.runtime.scheduler import RunQueue
from broker.runtime.timers import Wheel
from broker.sessions import Sessions
from broker.settings import Settings
from broker.totals import Totals


@final
class Handlers:
    """The objects that handle a connection's packets and run its session."""

    def __init__(  # noqa: PLR0913, PLR0917 - one per part, made in one place
        self,
        settings: Settings,
        wheel: Wheel,
        run_queue: RunQueue,
        totals: Totals,
        events: Events,
        router: Router,
        addresses: Addresses,
        sessions: Sessions,
        connections: Connections,
        newcomers: Newcomers,
        incomplete: IncompletePackets,
        handshakes: ConnectionDeadlines,
        side: Side,
        publishing: PublishHandler,
        barrier: Barrier | None = None,
    ) -> None:
        # Attributes used for each chunk and packet come first.
        self.totals = totals
        self.run_queue = run_queue
        self.side = side
        self.publishing = publishing
        self.barrier = barrier
        """FC-27, CL-3; None = nothing is waited for."""
        self.wheel = wheel
        self.known_topics = router.topics
        """Topics that need not be checked again."""
        self.settings = settings
        self.events = events
        self.addresses = addresses
        self.sessions = sessions
        self.connections = connections
        self.handshakes = handshakes
        """By when connections have to have a session."""
        self.lingering = ConnectionDeadlines(wheel, end_lingering)
        """By when clients can have read why they are disconnected."""
        self.aborts = ConnectionDeadlines(wheel, abort)
        """By when connections that are closing have to be closed."""
        self.newcomers = newcomers
        self.incomplete = incomplete
