"""The objects that all connections of one broker share, so that each connection is small."""

from typing import TYPE_CHECKING, final

from broker.addresses.policy import Addresses
from broker.connection.connections import Connections
from broker.connection.handshake import Handshake
from broker.connection.incomplete import IncompletePackets
from broker.connection.newcomers import Newcomers
from broker.connection.publishing import Publishing
from broker.connection.subscribing import Subscribing
from broker.connection.timers import SocketDeadlines, abort, end_handshake, end_lingering
from broker.events import Events
from broker.routing.router import Router
from broker.runtime.scheduler import RunQueue
from broker.runtime.timers import Wheel
from broker.sessions import Sessions
from broker.settings import Settings
from broker.totals import Totals

if TYPE_CHECKING:
    from broker.storage.commits import Commits


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
        handshake: Handshake,
        publishing: Publishing,
        subscribing: Subscribing,
        commits: "Commits | None" = None,
    ) -> None:
        # Attributes used for each chunk and packet come first.
        self.totals = totals
        self.run_queue = run_queue
        self.publishing = publishing
        self.commits = commits
        """FC-27; None = nothing survives the process."""
        self.wheel = wheel
        self.known_topics = router.topics
        """Topics that need not be checked again."""
        self.settings = settings
        self.events = events
        self.addresses = addresses
        self.sessions = sessions
        self.connections = connections
        self.handshakes = SocketDeadlines(wheel, end_handshake)
        """By when connections have to have a session."""
        self.lingering = SocketDeadlines(wheel, end_lingering)
        """By when clients can have read why they are disconnected."""
        self.aborts = SocketDeadlines(wheel, abort)
        """By when connections that are closing have to be closed."""
        self.newcomers = newcomers
        self.incomplete = IncompletePackets(sessions.quotas)
        self.handshake = handshake
        self.subscribing = subscribing
