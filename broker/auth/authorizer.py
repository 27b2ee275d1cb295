"""Authorization: the rules in effect, and what each client may do by them."""

from collections.abc import Callable
from typing import Final, final

from broker.auth.bridge_state import state_topic
from broker.auth.identity import SUPERUSER
from broker.auth.permissions import RETAINED, BoundRule, Permissions, Who
from broker.auth.rules import Rule, RuleSet, from_settings
from config.models import Config
from session.outbound import Outbound

CONFIGURED: Final = ""
"""The source of the rules in the configuration itself; others have the key of their file."""


def _nothing() -> None:
    """Nobody asks about permissions yet."""


def _default(config: Config) -> bool:
    """Whether what no rule is about is allowed; everything is once the last rules have gone."""
    if not config.authorization.has_rules:
        return True
    configured = config.authorization.default
    return configured == "allow" if configured is not None else not config.denies_by_default


@final
class Authorizer:
    """The rules of a broker that has some."""

    def __init__(self, config: Config) -> None:
        own = config.authorization
        self.narrow: bool = own.wide_subscriptions == "narrow"
        """Whether a subscription wider than what its client may read is accepted, and narrowed at delivery."""
        self._default: bool = _default(config)
        self._sources: dict[str, list[Rule]] = {CONFIGURED: [from_settings(rule) for rule in own.rules]}
        self._rules = RuleSet(self._sources[CONFIGURED])
        self.plugins: list[Callable[[Who], list[Rule] | None]] = []
        """What gives more rules for a client, after all others; None if it fails."""
        self._clients: dict[Outbound, Permissions] = {}
        self.on_changed: Callable[[], None] = _nothing
        """Called when the permissions of a session with subscriptions have changed."""

    def use(self, config: Config) -> None:
        """The configuration has other rules now."""
        own = config.authorization
        self.narrow = own.wide_subscriptions == "narrow"
        self._default = _default(config)
        self.put(CONFIGURED, [from_settings(rule) for rule in own.rules])

    def put(self, source: str, rules: list[Rule]) -> None:
        """Use these rules for a source; sources are asked in the order in which they came first."""
        self._sources[source] = rules
        self._rules = RuleSet([rule for own in self._sources.values() for rule in own])

    def permissions(self, who: Who) -> Permissions:
        """What a client may do by the rules in effect."""
        if SUPERUSER in who.roles:
            return Permissions(who, [], True)
        bound = self._rules.bind(who)
        default = self._default
        for plugin in self.plugins:
            # Of a session of which only the client id is known a plugin could only guess whose it is.
            more = plugin(who) if who.known else None
            if more is None:
                default = False
                break
            bound += RuleSet(more).bind(who)
        if who.bridge and "+" not in who.client_id and "#" not in who.client_id:
            # Behind all rules, so that those that deny come first. TopicRules looks at the payload.
            bound.append(BoundRule(True, RETAINED, 0, [state_topic(who.client_id).split(b"/")]))
        return Permissions(who, bound, default)

    def attach(self, outbound: Outbound, permissions: Permissions, subscribed: bool) -> None:
        """The session belongs to a client with these permissions now; `subscribed`: it has subscriptions."""
        before = self._clients.get(outbound)
        self._clients[outbound] = permissions
        if subscribed and (before is None or not before.equals(permissions)):
            self.on_changed()

    def forget(self, outbound: Outbound) -> None:
        """The session has ended."""
        self._clients.pop(outbound, None)

    def of(self, outbound: Outbound) -> Permissions | None:
        """What the client of a session may do; None before it has one."""
        return self._clients.get(outbound)

    def may_receive(self, outbound: Outbound, topic: bytes, qos: int) -> bool:
        """Whether a session gets the messages of a topic."""
        permissions = self._clients.get(outbound)
        return permissions is not None and permissions.may_receive(topic, qos)
