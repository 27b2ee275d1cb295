"""Quotas (FC-31): which one a client has, what users use, and what is refused for it."""

from collections.abc import Callable
from typing import Final, final

from broker.auth.identity import Identity, user_and_roles
from broker.auth.rules import Names
from broker.clients import Client, Clients
from broker.events import Events
from broker.quota import Quota, Usage
from broker.quotas.watermark import MEMORY, Narrowed, Watermark
from broker.settings import Settings, session_limits
from config.cluster import CELL
from config.memory import watermark
from config.models import Config
from config.quota import Quota as QuotaSettings
from protocol import reason_codes
from protocol.connect import Will
from protocol.errors import MQTTError
from session.cost import bytes_in
from session.limits import Limits
from session.session import use_limits

SMALL_WILL: Final = 1_024
"""Bytes of a will, with its topic, that is accepted beyond the watermark."""
FEW_SUBSCRIPTIONS: Final = 16
SHORT_FILTER: Final = 256
"""So many subscriptions of one session, with filters of so many characters, are accepted beyond the watermark."""
FIRST_LOOK: Final = 1_000
"""Different quotas that are kept without a look at whether they are used."""


@final
class QuotaEntry:
    """One entry of the configuration: whom it is about, and the limits that it sets."""

    def __init__(self, settings: QuotaSettings) -> None:
        self._users = Names(settings.users)
        self._roles = Names(settings.roles)
        given = settings.model_dump(exclude={"users", "roles"}, exclude_none=True)
        self.keys: dict[str, int] = {key: int(value) for key, value in given.items()}

    def is_about(self, user: str | None, roles: frozenset[str]) -> bool:
        """Whether a user, None = an anonymous client, is one of those."""
        return self._users.hold(user) and (self._roles.any or any(self._roles.hold(role) for role in roles))


@final
class Quotas:
    """The quotas of all users."""

    def __init__(self, config: Config, settings: Settings, clients: Clients, events: Events) -> None:
        self.active = False
        """Whether there are any."""
        self.watermark = Watermark()
        self._narrowed: list[Narrowed] = []
        """FC-32: what the limits of queues are without the watermark; empty while it is not reached."""
        self._settings = settings
        self._clients = clients
        self._events = events
        self.config = config
        """What is configured now: another object after a reload."""
        self.on_change: Callable[[Usage], None] | None = None
        """Called when the connections or sessions of a user may be others; None = nobody needs to know."""
        self._entries: list[QuotaEntry] = []
        self._shared: dict[tuple[tuple[str, int], ...], Quota] = {}
        """By what they set: sessions with equal limits share them."""
        self._most_shared = FIRST_LOOK
        """Past so many those that are not used are forgotten."""
        self._users: dict[str | None, Usage] = {}
        self._configure(config)

    def _configure(self, config: Config) -> None:
        self.config = config
        self._entries = [QuotaEntry(settings) for settings in config.quotas]
        self._shared = {}
        self._most_shared = FIRST_LOOK
        self.active = bool(self._entries) or config.authentication.gives_limits
        self.watermark.high = watermark(config).bytes

    def use(self, config: Config) -> None:
        """The configuration has changed: clients that connect get the new quotas; `renew` gives them to the others."""
        self.narrow(False)
        self._configure(config)
        self.narrow(self.watermark.reached)

    def renew(self, client: Client) -> None:
        """The client has connected or is restored, or the configuration has changed: it has its quota and limits."""
        if self.active and client.session.listener != CELL:
            self.join(client)
        else:
            self.leave(client)
            client.quota = None
            use_limits(client.session, self.limits(None, client.session.listener))

    # -- the quota of a client

    def of(self, identity: Identity | None) -> Quota:
        """The quota of a user: its own limits, and of the entries about it the first one that has a limit sets it."""
        user, roles = user_and_roles(identity)
        keys: dict[str, int] = {} if identity is None else dict(identity.limits)
        for entry in self._entries:
            if entry.is_about(user, roles):
                for key, limit in entry.keys.items():
                    keys.setdefault(key, limit)
        named = tuple(sorted(keys.items()))
        quota = self._shared.get(named)
        if quota is None:
            if len(self._shared) >= self._most_shared:
                self._forget_unused()
            quota = self._shared[named] = Quota(keys)
        return quota

    def limits(self, quota: Quota | None, listener: str) -> Limits:
        """Those of a session: a quota prevails over the profile of its listener (FC-39), that over `session`."""
        profile = self._settings.profiles.get(listener)
        if quota is None or not quota.of_session:
            return self._settings.limits if profile is None else profile
        place = "" if profile is None else listener
        limits = quota.limits.get(place)
        if limits is None:
            config = self.config
            session = config.profiles[listener] if place else config.session
            session = session.model_copy(update=quota.of_session)
            limits = quota.limits[place] = session_limits(config, self._settings.limits.gate, session)
            if self.watermark.reached:
                self._narrowed.append(Narrowed(limits))
        return limits

    def _forget_unused(self) -> None:
        """Users' own limits may be many: forget those of users who have no session."""
        used = {id(client.quota) for client in self._clients.known()}
        self._shared = {named: quota for named, quota in self._shared.items() if id(quota) in used}
        self._most_shared = max(FIRST_LOOK, 2 * len(self._shared))

    def narrow(self, on: bool) -> None:
        """FC-32: have large queues take nothing more, or end that."""
        for narrowed in self._narrowed:
            narrowed.end()
        self._narrowed = []
        if on:
            own = [limits for quota in self._shared.values() for limits in quota.limits.values()]
            all_limits = [self._settings.limits, *self._settings.profiles.values(), *own]
            self._narrowed = [Narrowed(limits) for limits in all_limits]

    # -- what users use

    def usage(self, user: str | None) -> Usage:
        """What a user uses."""
        usage = self._users.get(user)
        if usage is None:
            usage = self._users[user] = Usage(user)
        return usage

    def used_by(self, user: str | None) -> Usage | None:
        """What a user uses; None = nothing."""
        return self._users.get(user)

    def users(self) -> list[str | None]:
        """Those who use anything."""
        return list(self._users)

    def release(self, usage: Usage) -> None:
        """A user may use nothing any more: forget it."""
        if usage.idle():
            self._users.pop(usage.user, None)

    def join(self, client: Client) -> None:
        """A client has connected, or its session is restored: its user uses more now, and it has the user's quota."""
        user = None if client.identity is None else client.identity.user
        client.quota = self.of(client.identity)
        usage = self.usage(user)
        if client.usage is not usage:
            self.leave(client)
            client.usage = usage
            usage.sessions += 1
        connected = client.connection is not None
        usage.connections += connected - client.counted_connected
        client.counted_connected = connected
        kept = client.expiry_interval > 0
        usage.kept_sessions += kept - client.counted_kept
        client.counted_kept = kept
        if self.on_change is not None:
            self.on_change(usage)
        use_limits(client.session, self.limits(client.quota, client.session.listener))

    def detach(self, client: Client) -> None:
        """The client's connection has ended."""
        usage = client.usage
        if usage is not None:
            usage.connections -= client.counted_connected
            client.counted_connected = False
            if self.on_change is not None:
                self.on_change(usage)

    def leave(self, client: Client) -> None:
        """The session has ended, or has another user."""
        usage = client.usage
        if usage is not None:
            self.detach(client)
            client.usage = None
            usage.sessions -= 1
            usage.kept_sessions -= client.counted_kept
            client.counted_kept = False
            self.release(usage)

    # -- what is refused

    def admit(self, client_id: str, identity: Identity | None, kept: bool, clean_start: bool, now: int) -> None:
        """Raise MQTTError if the user may not connect one more client, or keep one more session."""
        user = None if identity is None else identity.user
        if kept and self.watermark.reached:
            self._admit_kept(client_id, user, clean_start, now)
        if not self.active:
            return
        quota = self.of(identity)
        usage = self._users.get(user)
        if usage is None:
            return  # it has neither
        client = self._clients.get(client_id)
        own = client is not None and client.usage is usage  # it is resumed, or replaced
        counted = own and client is not None and client.counted_kept
        if kept and 0 < quota.max_kept_sessions <= usage.kept_sessions - counted:
            raise self.reached("max_kept_sessions", quota.max_kept_sessions, user, client_id, now)
        connected = own and client is not None and client.counted_connected
        if 0 < quota.max_connections <= usage.connections - connected:
            raise self.reached("max_connections", quota.max_connections, user, client_id, now)

    def admit_will(self, will: Will, client_id: str, identity: Identity | None, now: int) -> None:
        """FC-32: raise MQTTError for a large will; a small one takes no more than the connection itself."""
        size = len(will.topic) + len(will.payload) + bytes_in(will.properties)
        if size > SMALL_WILL and self.watermark.reached:
            self._events.quota_reached(MEMORY, 0, None if identity is None else identity.user, client_id, now)
            message = f"a will of {size} bytes while the broker's memory is above memory_watermark"
            raise MQTTError(reason_codes.QUOTA_EXCEEDED, message)

    def _admit_kept(self, client_id: str, user: str | None, clean_start: bool, now: int) -> None:
        """FC-32: no new session is kept; one that is there is resumed."""
        client = self._clients.get(client_id)
        if clean_start or client is None or client.expiry_interval == 0:
            self._events.quota_reached(MEMORY, 0, user, client_id, now)
            message = "a new session to be kept while the broker's memory is above memory_watermark"
            raise MQTTError(reason_codes.QUOTA_EXCEEDED, message)

    def may_subscribe(self, client: Client, topic_filter: str, levels: int, now: int) -> bool:
        """Whether a client may have a subscription with a filter of so many levels."""
        quota = client.quota
        if quota is None and not self.watermark.reached:
            return True
        held = client.session.subscriptions
        if held is not None and topic_filter in held:
            return True  # it is replaced
        few = held is None or len(held) < FEW_SUBSCRIPTIONS
        if self.watermark.reached and not (few and len(topic_filter) <= SHORT_FILTER):  # FC-32
            self.note(client, MEMORY, 0, now)
            return False
        if quota is None:
            return True
        if 0 < quota.max_filter_levels < levels:
            self.note(client, "max_filter_levels", quota.max_filter_levels, now)
            return False
        if held is not None and 0 < quota.max_subscriptions <= len(held):
            self.note(client, "max_subscriptions", quota.max_subscriptions, now)
            return False
        return True

    def note(self, client: Client | None, key: str, limit: int, now: int) -> None:
        """A client has reached a limit."""
        user = None if client is None or client.usage is None else client.usage.user
        self._events.quota_reached(key, limit, user, "" if client is None else client.session.client_id, now)

    def note_rate(self, client: Client, of_bytes: bool, now: int) -> None:
        """Reading a client is paused, because it publishes faster than its quota allows."""
        quota = client.quota
        if quota is not None and of_bytes:
            self.note(client, "producer_max_bytes", quota.producer_max_bytes, now)
        elif quota is not None:
            self.note(client, "producer_max_rate", client.session.limits.producer_max_rate, now)

    def reached(self, key: str, limit: int, user: str | None, client_id: str, now: int) -> MQTTError:
        """The refusal of a client whose user has reached a limit."""
        self._events.quota_reached(key, limit, user, client_id, now)
        return MQTTError(reason_codes.QUOTA_EXCEEDED, f"the quota of the user is reached: {key} is {limit}")
