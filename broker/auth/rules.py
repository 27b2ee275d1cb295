"""The rules of authorization: about whom, about what; and what of them applies to one client."""

from fnmatch import translate
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from re import Pattern
from re import compile as compile_regex
from typing import Final, final

from broker.auth.permissions import EVERYTHING, QOS, QOS_RETAIN, BoundRule, Levels, Who
from config.rule import Rule as RuleSettings

USERNAME: Final = "{username}"
CLIENT_ID: Final = "{client_id}"
ROLE: Final = "{role}"

_PLACEHOLDER: Final = compile_regex(r"(\{username\}|\{client_id\}|\{role\})")

Network = IPv4Network | IPv6Network

Template = list[str]
"""A topic filter in pieces: text, placeholder, text, placeholder, ..., text."""


@final
class Names:
    """A condition on a name: it must equal one of several, or match one that has `*`, `?` or `[...]` in it."""

    def __init__(self, patterns: list[str]) -> None:
        self.exact = frozenset(pattern for pattern in patterns if not _has_glob(pattern))
        self.globs: list[Pattern[str]] = [compile_regex(translate(each)) for each in patterns if _has_glob(each)]
        self.any = not patterns

    @staticmethod
    def of(name: str) -> "Names":
        """The condition that a name equals this one, whatever characters are in it."""
        names = Names([])
        names.exact = frozenset((name,))
        names.any = False
        return names

    def hold(self, name: str | None) -> bool:
        """Whether the condition holds; for no name only if there is no condition."""
        if self.any:
            return True
        if name is None:
            return False
        return name in self.exact or any(glob.match(name) is not None for glob in self.globs)


@final
class Rule:
    """One rule."""

    def __init__(self, allow: bool, publish: int, subscribe: int, filters: list[Template]) -> None:
        """For all clients; the other attributes narrow that. `publish` and `subscribe` are masks, as in BoundRule."""
        self.allow = allow
        self.publish = publish
        self.subscribe = subscribe
        self.filters = filters
        self._named = any(len(each) > 1 for each in filters)
        """Whether names are put into its filters."""
        self._bound: BoundRule | None = None
        """If not, what it is for all clients to which it applies: many rules and clients would fill the memory."""
        self.users = Names([])
        self.roles = Names([])
        self.client_ids = Names([])
        self.listeners = Names([])
        self.networks: list[Network] = []
        self.anonymous = False
        """Whether it is only about clients that have not authenticated."""
        self.pattern = False
        """Whether it is one of Mosquitto's patterns: also what allows is about names with slashes, and clients with a
        wildcard in their names are excepted."""

    def bind_unknown(self, client_id: str) -> BoundRule | None:
        """The rule as it applies to a client of which nothing else is known; None if it does not.

        What allows has to be about all clients; what denies only may be about this one. So such a client may never do
        more than any client with this id.
        """
        if not self.client_ids.hold(client_id) or (self.pattern and not _is_plain(client_id, True)):
            return None
        about_all = self.users.any and self.roles.any and self.listeners.any and not self.networks
        if self.allow and (self.anonymous or not about_all):
            return None
        nobody = Who(None, frozenset(), client_id, "", "", False)
        filters: list[Levels] = []
        for template in self.filters:
            if all(placeholder == CLIENT_ID for placeholder in template[1::2]):
                filters += self._filled(template, nobody, [])
            elif not self.allow:
                widened = _widened(template)
                filters += self._filled(widened, nobody, []) if widened else [EVERYTHING]
        return BoundRule(self.allow, self.publish, self.subscribe, filters) if filters else None

    def bind(self, who: Who, address: IPv4Address | IPv6Address | None) -> BoundRule | None:
        """The rule as it applies to a client; None if it does not."""
        if self.anonymous and who.user is not None:
            return None
        if not (self.users.hold(who.user) and self.client_ids.hold(who.client_id)):
            return None
        if not self.listeners.hold(who.listener):
            return None
        if self.pattern and not (_is_plain(who.user or "", True) and _is_plain(who.client_id, True)):
            return None
        if self.networks and (address is None or not any(address in network for network in self.networks)):
            return None
        roles = [role for role in sorted(who.roles) if self.roles.hold(role)]
        if not self.roles.any and not roles:
            return None
        if self._bound is not None:
            return self._bound
        filters: list[Levels] = []
        for template in self.filters:
            filters += self._filled(template, who, roles)
        bound = BoundRule(self.allow, self.publish, self.subscribe, filters) if filters else None
        if not self._named:
            self._bound = bound
        return bound

    def _filled(self, template: Template, who: Who, roles: list[str]) -> list[Levels]:
        """The filters that a template stands for; none if a name that it needs is missing or would open too much.

        A name with a wildcard would match topics of others, and is part of no topic. One with a slash may be the name
        of others' topics, one that begins with `$` that of the broker's: neither opens anything, but what denies is
        about them too. All names are replaced at once: one that looks like a placeholder stays as it is.
        """
        placeholders = template[1::2]
        if not placeholders:
            return [template[0].encode().split(b"/")]
        slashes = self.pattern or not self.allow
        filled: list[Levels] = []
        for role in roles if ROLE in placeholders else [""]:
            names: dict[str, str | None] = {USERNAME: who.user, CLIENT_ID: who.client_id, ROLE: role}
            found = [names[placeholder] or "" for placeholder in placeholders]
            if all(name and _is_plain(name, slashes) for name in found):
                own = "".join([text + name for text, name in zip(template[::2], [*found, ""], strict=True)])
                if not self.allow or own.startswith("$") == template[0].startswith("$"):
                    filled.append(own.encode().split(b"/"))
        return filled


@final
class RuleSet:
    """All rules in their order, so that those of one client are found without a look at those of other users."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        self._by_user: dict[str, list[int]] = {}
        """Positions of the rules that name users exactly, by user."""
        self._others: list[int] = []
        for position, rule in enumerate(rules):
            if rule.users.any or rule.users.globs:
                self._others.append(position)
            else:
                for user in rule.users.exact:
                    self._by_user.setdefault(user, []).append(position)

    def bind(self, who: Who) -> list[BoundRule]:
        """The rules as they apply to a client."""
        positions: list[int] = self._others if who.known else list(range(len(self._rules)))
        own = None if who.user is None else self._by_user.get(who.user)
        if own is not None:
            positions = sorted([*positions, *own])
        address = _address(who.host)
        bound: list[BoundRule] = []
        for position in positions:
            rule = self._rules[position].bind(who, address) if who.known else self._unknown(position, who)
            if rule is not None:
                bound.append(rule)
        return bound

    def _unknown(self, position: int, who: Who) -> BoundRule | None:
        return self._rules[position].bind_unknown(who.client_id)


def from_settings(own: RuleSettings) -> Rule:
    """A rule of the configuration."""
    publish = subscribe = 0
    if own.action != "subscribe":
        publish = _kinds(own.qos, own.retain)
    if own.action != "publish":
        subscribe = sum(1 << qos for qos in set(own.qos)) if own.qos else QOS
    templates = [_PLACEHOLDER.split(each) for each in own.topics]
    rule = Rule(own.permit == "allow", publish, subscribe, templates)
    rule.users = Names(own.users)
    rule.roles = Names(own.roles)
    rule.client_ids = Names(own.client_ids)
    rule.listeners = Names(own.listeners)
    rule.networks = [ip_network(each) for each in own.addresses]
    return rule


def _kinds(qos: list[int], retain: bool | None) -> int:
    kinds = 0
    for each in qos or [0, 1, 2]:
        if retain is not True:
            kinds |= 1 << 2 * each
        if retain is not False:
            kinds |= 1 << 2 * each + 1
    return kinds & QOS_RETAIN


def _widened(template: Template) -> Template:
    """A filter that matches what the template of a rule that denies does, whatever the user and roles; empty for all.

    Their names may have slashes.
    """
    for position in range(1, len(template), 2):
        if template[position] != CLIENT_ID:
            before = template[:position]
            while before:
                above, slash, _ = before.pop().rpartition("/")
                if slash:
                    return [*before, f"{above}/#"]
                if before:
                    before.pop()  # a placeholder in the same level
            return before
    return template


def _is_plain(name: str, slashes: bool) -> bool:
    return not ("+" in name or "#" in name or ("/" in name and not slashes))


def _has_glob(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern or "[" in pattern


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
