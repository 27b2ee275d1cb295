"""Creates the broker's parts from its configuration and connects them. `Server` adds the sockets."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, final

from broker.addresses.policy import Addresses
from broker.auth.access import SCRAM, Access
from broker.auth.authenticators.guard import Guard
from broker.auth.authorizer import Authorizer
from broker.auth.identity import user_and_roles
from broker.auth.permissions import Who
from broker.auth.rules import Rule
from broker.auth.watched_file import WatchedFile
from broker.clients import Client, Clients
from broker.connection.admission import Admission
from broker.connection.capabilities import Capabilities
from broker.connection.connections import Connections
from broker.connection.handlers import Handlers
from broker.connection.handshake import Handshake
from broker.connection.incomplete import IncompletePackets
from broker.connection.newcomers import Newcomers
from broker.connection.publishing import Publishing
from broker.connection.server_side import ServerSide
from broker.connection.side import PublishHandler, Side
from broker.connection.subscribing import Subscribing
from broker.connection.timers import ConnectionDeadlines, end_handshake
from broker.events import Events
from broker.quotas.quotas import Quotas
from broker.quotas.retained_guard import RetainedGuard
from broker.routing.address_book import AddressBook
from broker.routing.messages import Messages
from broker.routing.retained import Retained
from broker.routing.router import Router
from broker.routing.shared_queues import AgeTimer, SharedQueues
from broker.routing.topic_rules import TopicRules
from broker.routing.via import Via
from broker.runtime.barrier import Barrier
from broker.runtime.clock import monotonic_us
from broker.runtime.scheduler import RunQueue
from broker.runtime.timers import Wheel
from broker.sessions import Sessions
from broker.settings import Settings, address_rule
from broker.storage.journal import Journal
from broker.telemetry.drop_events import DropEvents
from broker.totals import Totals
from broker.visit import visit
from config.memory import watermark
from config.models import Config
from protocol import reason_codes

if TYPE_CHECKING:
    from broker.auth.authenticators.authenticators import Authenticators


def open_authenticators(config: Config, guard: Guard, connections: Connections) -> "Authenticators | None":
    """What decides about user names and passwords; None if nothing is configured for that. Raises OSError."""
    if not config.authentication.has_chain:
        return None
    from broker.auth.authenticators.authenticators import Authenticators

    return Authenticators(config, guard, connections.close_users)


def _limiting(config: Config) -> tuple[object, ...]:
    """What each client has limits of its own from; without quotas all sessions of a listener have the same ones."""
    own = config.quotas, config.profiles, config.session.producer_max_rate
    quotas = bool(config.quotas) or config.authentication.gives_limits
    return (*own, config.session, config.mqtt) if quotas else own


def _changed_users(before: Config, now: Config) -> set[str]:
    """The users of SCRAM who are removed, or have another password or other roles."""
    same = {user.username: user for user in now.authentication.scram}
    return {user.username for user in before.authentication.scram if same.get(user.username) != user}


def _who(client: Client) -> Who:
    """Who a client is that has connected when there were no rules.

    One that is away and not in the journal has no address: what waits for it is decided anew when it has one again.
    """
    session = client.session
    owner = None if client.kept is None else client.kept.owner
    if owner is not None:
        return Who(owner.user, owner.roles, session.client_id, owner.host, owner.listener, bridge=client.bridge)
    user, roles = user_and_roles(client.identity)
    host = "" if client.connection is None else client.connection.socket.host()
    return Who(user, roles, session.client_id, host, session.listener, client.owned, client.bridge)


@final
class Broker:
    """One broker without sockets. A part gets only what it uses; the server and recovery get the whole broker."""

    _guard: RetainedGuard | None = None

    def __init__(
        self, config: Config, now: int, gate: bool = True, journal: Journal | None = None, guard: Guard | None = None
    ) -> None:
        """`journal`: None = nothing survives the process (FC-27); `guard`: None = this broker counts failed logins."""
        self.settings = settings = Settings(config, gate)
        self.journal = journal
        self.totals = Totals()
        self.events = Events(self.totals, config.log.level)
        self.wheel, self.run_queue = Wheel(now), RunQueue()
        self.topic_rules = topic_rules = TopicRules(config)
        self.authorizer = authorizer = Authorizer(config) if config.authorization.has_rules else None
        self.capabilities = capabilities = Capabilities(config)
        self.router = self._new_router(config, topic_rules, journal)
        self.via = Via()
        self.retained = Retained(self.wheel, journal)
        self.messages = messages = Messages(self.router, self.retained, topic_rules, journal)
        self.clients = Clients()
        self.quotas = Quotas(config, settings, self.clients, self.events)
        self.addresses = Addresses(messages, self.clients, self.wheel, self.events, settings.limits, journal)
        self.sessions = Sessions(
            self.clients,
            settings.limits,
            self.wheel,
            messages,
            self.addresses,
            self.totals,
            self.events,
            self.quotas,
            journal,
            authorizer,
        )
        self.drop_events = self._new_drop_events(config)
        self.connections = Connections()
        self._admission = Admission(settings, capabilities, topic_rules, self.clients)
        guard = guard or Guard.of(config.authentication.failed_logins)
        self.authenticators = authenticators = open_authenticators(config, guard, self.connections)
        self.access = Access(config, guard, None if authenticators is None else authenticators.chain)
        self._newcomers = newcomers = Newcomers(settings)
        self._incomplete = IncompletePackets(self.quotas)
        self._handshakes = handshakes = ConnectionDeadlines(self.wheel, end_handshake)
        self.subscribing = Subscribing(
            settings, self.router, self.retained, capabilities, topic_rules, self.events, authorizer, self.quotas
        )
        asked = (settings, capabilities, self.access, self._admission, self.sessions, self.totals, self.events)
        self.handshake = Handshake(*asked, newcomers, self.subscribing, self.via, authorizer)
        self.commits = commits = None if journal is None else journal.commits
        """None = nothing survives the process."""
        self.barrier: Barrier | None = commits
        """What packets wait for before they are written; None = nothing."""
        self.publishing = Publishing(
            messages, self.addresses, capabilities, topic_rules, self.events, self.via, commits, authorizer
        )
        side = ServerSide(settings, self.totals, self.events, newcomers, handshakes, self.handshake, self.subscribing)
        self.handlers = self.new_handlers(side, self.publishing)
        """The argument of each new connection of a client."""
        self.guard_retained()
        self.watched = self._open_files(config)
        """Files that the server has to watch."""
        self.jobs: list[Callable[[], Coroutine[Any, Any, None]]] = self._open_plugins(config)
        """What the server has to run beside the broker."""

    def new_handlers(self, side: Side, publishing: PublishHandler, totals: Totals | None = None) -> Handlers:
        """What connections on one side of MQTT share; `totals`: None = they count as all connections do."""
        return Handlers(
            self.settings,
            self.wheel,
            self.run_queue,
            totals or self.totals,
            self.events,
            self.router,
            self.addresses,
            self.sessions,
            self.connections,
            self._newcomers,
            self._incomplete,
            self._handshakes,
            side,
            publishing,
            self.barrier,
        )

    def _new_router(self, config: Config, topic_rules: TopicRules, journal: Journal | None) -> Router:
        settings, authorizer = self.settings, self.authorizer
        router = Router(
            settings.max_topic_levels,
            config.mqtt.overlapping_subscriptions == "merge",
            topic_rules=topic_rules,
            shared=SharedQueues(settings.limits, self.events.log, topic_rules.may_deliver, journal),
            addresses=AddressBook([(own.match, address_rule(own)) for own in config.addresses]),
            authorizer=authorizer,
            wheel=self.wheel,
        )
        router.backpressure = settings.backpressure
        if settings.limits.max_mqueue_age:
            AgeTimer(router.shared, self.wheel, settings.limits.max_mqueue_age).start(self.wheel.now)
        if authorizer is not None:
            authorizer.on_changed = router.forget_topics
        return router

    def _open_files(self, config: Config) -> list[WatchedFile[Any]]:
        files: list[WatchedFile[Any]] = [] if self.authenticators is None else list(self.authenticators.files)
        if self.authorizer is not None:
            from broker.auth.rule_files.rule_files import open_files

            files += open_files(config, self.authorizer, self.use_rules)
        return files

    def _open_plugins(self, config: Config) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        jobs = [] if self.authenticators is None else list(self.authenticators.jobs)
        if config.authorization.plugins:
            from broker.auth.plugins.authorizer import AuthorizerPlugin

            authorizer = self.authorizer
            assert authorizer is not None  # with plugins there is one
            for own in config.authorization.plugins:
                plugin = AuthorizerPlugin(own)
                authorizer.plugins.append(plugin.rules)
                jobs.append(partial(plugin.run, self.renew_permissions))
        return jobs

    def _new_drop_events(self, config: Config) -> DropEvents:
        events = DropEvents(self.messages, self.wheel, self.journal, self.settings.max_topic_levels)
        self._use_drop_events(events, config)
        return events

    def _use_drop_events(self, events: DropEvents, config: Config) -> None:
        """FC-35: tell of the drops of groups, and of sessions that begin from now on, or do not."""
        shared = self.router.shared
        events.use(config.drop_events)
        self.sessions.new_drop_log = events.of_client if config.drop_events is not None else None
        shared.new_drop_log = events.of_group if config.drop_events is not None else None
        for queue in shared.queues.values():
            queue.counters.drop_log = events.of_group(queue.name)

    def _renew_drop_log(self, client: Client) -> None:
        client.session.counters.drop_log = self.drop_events.of_client(client.session.client_id)

    def guard_retained(self) -> None:
        """Have quotas and memory decide what may be retained, while there are such limits: PUBLISHes pay for asking."""
        guard = self._guard
        if not (self.quotas.active or self.quotas.watermark.reached):
            guard = None
        elif guard is None:
            guard = RetainedGuard(self.quotas, self.clients, self.retained)
        self._guard = self.retained.guard = guard
        self.publishing.guard_retained(guard)

    async def use(self, config: Config, before: Config) -> None:
        """A reload: everything is as in `config` from now on, which differs in nothing that needs a restart.

        Clients that are there already have their new quotas and permissions when this returns.
        """
        self.quotas.narrow(False)  # it changes the limits too
        self.settings.use(config)
        self.capabilities.use(config)
        self._admission.limit_rate()
        self.access.use(config)
        self.router.backpressure = self.settings.backpressure
        self.events.use(config.log.level)
        changed_memory = watermark(config).bytes != self.quotas.watermark.high  # also by a container that has grown
        limiting = _limiting(config) != _limiting(before) or changed_memory
        if limiting:
            self.quotas.use(config)
            self.router.forget_topics()  # FC-34: other queues may tell
        else:
            self.quotas.narrow(self.quotas.watermark.reached)
        if config.drop_events != before.drop_events:
            self._use_drop_events(self.drop_events, config)
            await visit(self.clients, self._renew_drop_log)
        changed = _changed_users(before, config)
        if changed:
            self.connections.close_users(SCRAM, changed)
        if config.mqtt != before.mqtt:
            self.router.merge_overlapping(config.mqtt.overlapping_subscriptions == "merge")
        if config.authorization != before.authorization or config.denies_by_default != before.denies_by_default:
            self.topic_rules.use(config)
            self.router.forget_topics()  # at once: nothing may be queued by the old ones once it is rechecked
            if self.authorizer is not None:
                self.authorizer.use(config)
                await self.renew_permissions()
            elif config.authorization.has_rules:
                await self._authorize(Authorizer(config))
            if config.authorization.deny_subscribe != before.authorization.deny_subscribe:
                await self._recheck_topics()
        if limiting:
            await visit(self.clients, self._renew_quota)
            self.router.forget_topics()
            counting = self._guard
            self.guard_retained()
            counting = self._guard or counting
            if counting is not None:  # last: a retained message counts for the user that its publisher has by now
                await counting.count()

    async def _recheck_topics(self) -> None:
        """Other topics may not be received: what waits on them is not sent any more."""
        if self.topic_rules.hides_topics():
            await visit(self.clients, self._recheck_waiting)

    def _renew_quota(self, client: Client) -> None:
        """The quotas of the configuration, its watermark or rates may be others."""
        self.quotas.renew(client)
        if client.connection is not None:
            client.connection.limit_rate(monotonic_us())

    async def _authorize(self, authorizer: Authorizer) -> None:
        """The broker has its first rules; when this returns, they apply to all sessions."""
        authorizer.on_changed = self.router.forget_topics
        self.authorizer = self.sessions.authorizer = self.handshake.authorizer = authorizer
        await visit(self.clients, self._permit)  # first: to sessions without permissions the router delivers nothing
        self.router.authorizer = self.subscribing.authorizer = authorizer
        self.publishing.authorize(authorizer)
        self.router.forget_topics()
        await visit(self.clients, self._recheck)

    def _permit(self, client: Client) -> None:
        """There are rules; who has connected since has permissions already."""
        authorizer = self.authorizer
        assert authorizer is not None
        if client.permissions is None:
            client.permissions = authorizer.permissions(_who(client))
            authorizer.attach(client.session.outbound, client.permissions, False)

    def use_rules(self, source: str, rules: list[Rule]) -> Coroutine[Any, Any, None]:
        """The rules of a source have changed; when what is returned ends, they apply to all sessions."""
        authorizer = self.authorizer
        assert authorizer is not None  # rules have a source only with it
        authorizer.put(source, rules)
        return self.renew_permissions()

    async def renew_permissions(self) -> None:
        """Rules have changed: when this returns, all sessions have the new permissions, also for what waits.

        Shared subscriptions that they do not allow end, and their clients are disconnected, so that they know.
        """
        await visit(self.clients, self._renew_permissions)
        self.router.forget_topics()

    def _renew_permissions(self, client: Client) -> None:
        authorizer = self.authorizer
        assert authorizer is not None  # there are rules only with it
        before = client.permissions
        if before is None:
            return
        permissions = authorizer.permissions(before.who)
        if before.equals(permissions):
            return
        client.permissions = permissions
        # With subscriptions topics are forgotten at once: nothing may be queued by the old rights once it is rechecked.
        authorizer.attach(client.session.outbound, permissions, bool(client.session.subscriptions))
        self._recheck(client)

    def _recheck(self, client: Client) -> None:
        """What waits for a client, and its subscriptions, are from a time when it had other permissions."""
        if client.feed is not None:
            client.feed.authorizer = self.authorizer
        self._recheck_waiting(client)
        if self.subscribing.recheck(client) and client.connection is not None:
            client.connection.close(reason_codes.NOT_AUTHORIZED, "a shared subscription is no longer permitted")

    def _recheck_waiting(self, client: Client) -> None:
        """What waits for a client is decided anew when it is sent: from now on, or from when it connects."""
        if client.connection is None:
            client.rights_changed = True
        else:
            self.subscribing.recheck_waiting(client)
