"""Creates the broker's parts from its configuration and connects them. `Server` adds the sockets."""

from typing import TYPE_CHECKING, Any, final

from broker.addresses.book import AddressBook
from broker.addresses.policy import Addresses
from broker.auth.access import Access
from broker.auth.authorizer import Authorizer
from broker.auth.rules import Rule
from broker.auth.topic_rules import TopicRules
from broker.auth.watched_file import WatchedFile
from broker.clients import Clients
from broker.connection.admission import Admission
from broker.connection.capabilities import Capabilities
from broker.connection.connections import Connections
from broker.connection.handlers import Handlers
from broker.connection.handshake import Handshake
from broker.connection.publishing import Publishing
from broker.connection.subscribing import Subscribing
from broker.events import Events
from broker.routing.messages import Messages
from broker.routing.retained import Retained
from broker.routing.router import Router
from broker.routing.shared_groups import GroupsHost, SharedGroups
from broker.runtime.scheduler import RunQueue
from broker.runtime.timers import Wheel
from broker.sessions import Sessions
from broker.settings import Settings, address_rule
from broker.storage.journal import Journal
from broker.totals import Totals
from config.models import Config
from protocol import reason_codes

if TYPE_CHECKING:
    from broker.auth.authenticators.authenticators import Authenticators


def open_authenticators(config: Config, connections: Connections) -> "Authenticators | None":
    """What decides about user names and passwords; None if nothing is configured for that. Raises OSError."""
    if config.authentication.password_file is None:
        return None
    from broker.auth.authenticators.authenticators import Authenticators

    return Authenticators(config, connections.close_users)


@final
class Broker:
    """One broker without sockets. A part gets only what it uses; the server and recovery get the whole broker."""

    def __init__(self, config: Config, now: int, gate: bool = True, journal: Journal | None = None) -> None:
        """`journal`: None = nothing survives the process (FC-27)."""
        self.settings = Settings(config, gate)
        settings = self.settings
        self.totals = Totals()
        self.events = Events(self.totals, settings.debug)
        self.wheel = Wheel(now)
        self.run_queue = RunQueue()
        topic_rules = TopicRules(config)
        self.authorizer = authorizer = Authorizer(config) if config.authorization.has_rules else None
        capabilities = Capabilities(config)
        self.router = Router(
            settings.max_topic_levels,
            config.mqtt.overlapping_subscriptions == "merge",
            topic_rules=topic_rules,
            shared=SharedGroups(settings.limits, GroupsHost(self.events.log), journal),
            addresses=AddressBook([(own.match, address_rule(own)) for own in config.addresses]),
            authorizer=authorizer,
        )
        if authorizer is not None:
            authorizer.on_changed = self.router.forget_topics
        self.retained = Retained(self.wheel, journal)
        self.messages = messages = Messages(self.router, self.retained, topic_rules, journal)
        self.clients = Clients()
        window = config.session.producer_window_size
        self.addresses = Addresses(messages, self.clients, self.wheel, self.events, window, journal)
        self.sessions = Sessions(
            self.clients,
            settings.limits,
            self.wheel,
            messages,
            self.addresses,
            self.totals,
            self.events,
            journal,
            authorizer,
        )
        self.connections = Connections()
        commits = journal.commits if journal is not None else None
        admission = Admission(settings, capabilities, topic_rules, self.clients)
        self.authenticators = open_authenticators(config, self.connections)
        access = Access(config, None if self.authenticators is None else self.authenticators.chain)
        self.handlers = Handlers(
            settings,
            self.wheel,
            self.run_queue,
            self.totals,
            self.events,
            self.router,
            self.addresses,
            self.sessions,
            self.connections,
            Handshake(settings, capabilities, access, admission, self.sessions, self.totals, self.events, authorizer),
            Publishing(messages, self.addresses, capabilities, topic_rules, self.events, commits, authorizer),
            Subscribing(settings, self.router, self.retained, capabilities, topic_rules, self.events, authorizer),
            commits,
        )
        """The argument of each new `Connection`."""
        self.watched = self._open_files(config)
        """Files that the server has to watch."""

    def _open_files(self, config: Config) -> list[WatchedFile[Any]]:
        files: list[WatchedFile[Any]] = [] if self.authenticators is None else list(self.authenticators.files)
        if self.authorizer is not None:
            from broker.auth.rule_files.rule_files import open_files

            files += open_files(config, self.authorizer, self.use_rules)
        return files

    def use_rules(self, source: str, rules: list[Rule]) -> None:
        """The rules of a source have changed: all sessions have the new permissions at once.

        Shared subscriptions that they do not allow end, and their clients are disconnected, so that they know.
        """
        authorizer = self.authorizer
        assert authorizer is not None  # rules have a source only with it
        authorizer.put(source, rules)
        for client in self.clients.known():
            if client.permissions is None:
                continue
            client.permissions = authorizer.permissions(client.permissions.who)
            authorizer.attach(client.session.outbound, client.permissions, False)
            if self.handlers.subscribing.recheck(client) and client.connection is not None:
                client.connection.close(reason_codes.NOT_AUTHORIZED, "a shared subscription is no longer permitted")
        self.router.forget_topics()
