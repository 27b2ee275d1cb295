"""Authorization: the rules in effect, and what each client may do by them."""

from collections.abc import Callable
from typing import Final, final

from broker.auth.permissions import Permissions, Who
from broker.auth.rules import Rule, RuleSet, from_settings
from config.models import Config
from session.outbound import Outbound

CONFIGURED: Final = ""
"""The source of the rules in the configuration itself; others have the key of their file."""


def _nothing() -> None:
    """Nobody asks about permissions yet."""


@final
class Authorizer:
    """The rules of a broker that has some."""

    def __init__(self, config: Config) -> None:
        own = config.authorization
        self.narrow = own.wide_subscriptions == "narrow"
        """Whether a subscription wider than what its client may read is accepted, and narrowed at delivery."""
        self._default: bool = own.default == "allow" if own.default is not None else not config.denies_by_default
        self._sources: dict[str, list[Rule]] = {CONFIGURED: [from_settings(rule) for rule in own.rules]}
        self._rules = RuleSet(self._sources[CONFIGURED], self._default)
        self._clients: dict[Outbound, Permissions] = {}
        self.on_changed: Callable[[], None] = _nothing
        """Called when the permissions of a session with subscriptions have changed."""

    def put(self, source: str, rules: list[Rule]) -> None:
        """Use these rules for a source; sources are asked in the order in which they came first."""
        self._sources[source] = rules
        self._rules = RuleSet([rule for own in self._sources.values() for rule in own], self._default)

    def permissions(self, who: Who) -> Permissions:
        """What a client may do by the rules in effect."""
        return self._rules.permissions(who)

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
        """What the client of a session may do; None for a session of an earlier process, whose client has not come."""
        return self._clients.get(outbound)

    def may_receive(self, outbound: Outbound, topic: bytes, qos: int) -> bool:
        """Whether a session gets the messages of a topic."""
        permissions = self._clients.get(outbound)
        return permissions is None or permissions.may_receive(topic, qos)
