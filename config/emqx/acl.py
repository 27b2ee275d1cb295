"""Makes rules of ours of those in acl.conf.

Nobody may do more by them: what ours cannot say is left out of a rule that allows, and widens one that denies.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import ip_network
from itertools import product
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from config.emqx.erlang import Atom, terms
from config.rule import RuleFilter

EVERYTHING: Final = ("#", "$SYS/#")

Rule = dict[str, Any]
Alternatives = list[dict[str, list[str]]]

_FILTER: Final[TypeAdapter[str]] = TypeAdapter(RuleFilter)
_NAME: Final = re.compile(r"\^([A-Za-z0-9_.@:-]+)\$", re.ASCII)
"""A regular expression that is just a name."""
_PLACEHOLDER: Final = re.compile(r"\$\{([^{}]*)\}")
_KEYS: Final = {"user": "users", "username": "users", "client": "client_ids", "clientid": "client_ids"}
_PLACES: Final = {"username": "users", "clientid": "client_ids"}
_OURS: Final = {"username": "{username}", "clientid": "{client_id}"}
_ALL: Final = Atom("all")
_QOS: Final = (0, 1, 2)
_MOST_ALTERNATIVES: Final = 100
_SHIPPED: Final = ("allow", ("username", ("re", "^dashboard$")), "subscribe", ["$SYS/#"])
"""It is in the file of everybody, also of those whose clients have no names."""

_NO_CONDITION: Final = "the condition has no counterpart: rules have users, client_ids and addresses"
_NO_REGEX: Final = "rules have patterns with * and ?, not regular expressions"
_NO_ACTION: Final = "rules are about publish, subscribe or all, with qos and retain"
_NO_PLACE: Final = "topics have {username}, {client_id} and {role} only"
_NO_TOPIC: Final = "topics are texts"
_PROFILE: Final = "the security profile is not in the configuration: emqx.env does not name it"
_WIDE: Final = "rules are about topics, and a wide subscription gets what its client may receive"
_EXACT: Final = "rules are about topics, not about filters: all that a filter of eq matches is denied"
_WIDEST: Final = ("#", "+/#")
"""EMQX's own acl.conf denies SUBSCRIBE to these filters. A rule that denies their topics would deny everything."""


class Names(Enum):
    """How a name that rules have is known."""

    SURE = "sure"
    CLAIMED = "without authentication Sluice believes no user name"
    OTHERS = "EMQX makes this name of something else, which Sluice does not"


@dataclass(frozen=True)
class Known:
    """What conditions can rely on."""

    users: Names = Names.SURE
    client_ids: Names = Names.SURE
    profile: str | None = None
    """The security profile; None: it is not known."""

    def of(self, key: str) -> Names:
        """How the names of a key are known."""
        return self.users if key == "users" else self.client_ids


@dataclass
class Read:
    """A term of acl.conf."""

    line: int
    source: str
    """As written."""
    denies: bool
    rules: list[Rule] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """What the rules do not say."""
    left: list[str] = field(default_factory=list)
    """What need not be said."""
    about_profile: bool = False


def rules(text: str, known: Known) -> Iterator[Read]:
    """Each term. Raises ValueError if the file has others than rules."""
    for line, source, term in terms(text):
        if not isinstance(term, tuple) or len(term) not in (2, 4) or term[0] not in ("allow", "deny"):
            raise ValueError(f'found {source!r:.60}: write a rule such as {{allow, all, publish, ["a/#"]}}.')
        read = Read(line, source, term[0] == "deny", about_profile="security_profile" in source)
        _Reader(read, known).read(*term)
        if term == _SHIPPED:
            read.wrong.clear()
        yield read


def deny_dollars(found: list[Rule]) -> None:
    """Have rules deny topics that begin with $ where they deny `+` or `#`, which match them too in EMQX.

    These are the topics under $SYS, and those that other rules allow.
    """
    named = [topic for rule in found if rule["permit"] == "allow" for topic in rule["topics"] if topic[0] == "$"]
    roots = dict.fromkeys(["$SYS", *(each.partition("/")[0] for each in named)])
    for rule in found:
        if rule["permit"] == "deny":
            wide = [each for each in rule["topics"] if each[0] in "+#"]
            more = [f"{root}/#" if each == "#" else root + each[1:] for each in wide for root in roots]
            rule["topics"] = list(dict.fromkeys([*rule["topics"], *more]))


class _Reader:
    """Makes rules of one term."""

    def __init__(self, read: Read, known: Known) -> None:
        self._read = read
        self._known = known

    def read(self, permit: str, who: Any, action: Any = _ALL, topics: Any = _ALL) -> None:
        """Put the rules into what is read."""
        about = self._action(action)
        filters = self._topics(topics)
        alternatives = self._who(who)
        if about is None or not filters:
            return
        rule = {"permit": str(permit), "topics": filters, **about}
        for each in alternatives:
            self._read.rules.append(rule | each)
            if self._read.denies:
                self._read.rules += _of_wildcards(rule | each)

    def _unknown(self, why: str) -> bool:
        """Say what cannot be said; returns whether the rule is about more instead."""
        if why not in self._read.wrong:
            self._read.wrong.append(why)
        return self._read.denies

    def _who(self, who: Any) -> Alternatives:
        """Conditions, of which one has to hold; none: the rule is about nobody."""
        if who == "all" and isinstance(who, Atom):
            return [{}]
        kind, value = who if isinstance(who, tuple) and len(who) == 2 else ("", None)
        if kind == "ipaddr":
            return self._addresses([value])
        if kind == "ipaddrs" and isinstance(value, list):
            return self._addresses(value) if value else []
        if kind == "or" and isinstance(value, list):
            return _bounded([each for part in value for each in self._who(part)])
        if kind == "and" and isinstance(value, list):
            found: Alternatives = [{}]
            for part in value:
                pairs = product(found, self._who(part))
                found = _bounded([merged for one, two in pairs if (merged := self._both(one, two)) is not None])
            return found
        if kind == "security_profile" and self._known.profile is not None:
            return [{}] if value == self._known.profile else []
        if kind in _KEYS:
            return self._name(_KEYS[kind], value)
        return self._any(_PROFILE if kind == "security_profile" else _NO_CONDITION)

    def _any(self, why: str) -> Alternatives:
        return [{}] if self._unknown(why) else []

    def _both(self, one: dict[str, list[str]], two: dict[str, list[str]]) -> dict[str, list[str]] | None:
        """Both conditions; None if they cannot be said together."""
        if not one.keys() & two.keys():
            return one | two
        return one if self._unknown("a rule has one condition of each kind") else None

    def _addresses(self, networks: list[Any]) -> Alternatives:
        try:
            return [{"addresses": [_network(str(each)) for each in networks]}]
        except ValueError:
            return self._any("this is no IP address or network")

    def _name(self, key: str, value: Any) -> Alternatives:
        known = self._known.of(key)
        if known is not Names.SURE and (self._unknown(known.value) or known is Names.OTHERS):
            return [{}] if self._read.denies else []
        if isinstance(value, str) and value:
            return [{key: [re.sub(r"([*?\[])", r"[\1]", value)]}]
        match = _NAME.fullmatch(value[1]) if isinstance(value, tuple) and len(value) == 2 and value[0] == "re" else None
        if match is None:
            return self._any(_NO_REGEX)
        # A point is meant as one, but stands for any character.
        return [{key: [match[1].replace(".", "?") if self._read.denies else match[1]]}]

    def _action(self, action: Any) -> Rule | None:
        """What the rule is about; None: nothing."""
        kind, options = action if isinstance(action, tuple) and len(action) == 2 else (action, [])
        if kind not in ("all", "publish", "subscribe") or not isinstance(options, list):
            return self._every_action()
        rule: Rule = {} if kind == "all" else {"action": str(kind)}
        retain = ""
        for option in options:
            name, value = option if isinstance(option, tuple) and len(option) == 2 else ("", None)
            if name == "qos":
                rule["qos"] = rule.get("qos", []) + (value if isinstance(value, list) else [value])
            elif name == "retain" and value in ("true", "false", "all"):
                retain = retain or str(value)  # the first one counts
            else:
                return self._every_action()
        if retain in ("true", "false") and kind != "subscribe":
            rule["retain"] = retain == "true"
        if not all(each in _QOS for each in rule.get("qos", [])):
            return self._every_action()
        return None if rule.get("qos") == [] else rule

    def _every_action(self) -> Rule | None:
        return {} if self._unknown(_NO_ACTION) else None

    def _topics(self, topics: Any) -> list[str]:
        """Topic filters."""
        if topics == "all" and isinstance(topics, Atom):
            return list(EVERYTHING)
        found = [each for topic in (topics if isinstance(topics, list) else [topics]) for each in self._topic(topic)]
        valid = [each for each in found if self._matches_something(each)]
        return list(dict.fromkeys(valid))

    def _topic(self, topic: Any) -> list[str]:
        exact, text = False, topic
        if isinstance(topic, tuple) and len(topic) == 2 and topic[0] == "eq":
            exact, text = True, topic[1]
        elif isinstance(topic, str) and topic.startswith("eq "):
            exact, text = True, topic[3:]
        if not isinstance(text, str) or isinstance(text, Atom):
            return list(EVERYTHING) if self._unknown(_NO_TOPIC) else []
        if exact and set(text.split("/")) & {"+", "#"}:
            if self._read.denies and text not in _WIDEST:
                return [text] if self._unknown(_EXACT) else []
            self._read.left.append(f"{{eq, {text}}} is left out: {_WIDE}")
            return []
        written = ""
        for position, part in enumerate([text] if exact else _PLACEHOLDER.split(text)):
            why = self._cannot_be_written(part, position % 2 == 1)
            if why is not None:
                above = (written + ("" if position % 2 else part.partition("{")[0])).rpartition("/")[0]
                return [f"{above}/#".removeprefix("/")] if self._unknown(why) else []
            written += _OURS[part] if position % 2 else part
        return [written]

    def _cannot_be_written(self, part: str, is_place: bool) -> str | None:
        """Why a part of a topic cannot be: a text, or the name of a placeholder."""
        if not is_place:
            return _NO_PLACE if "{" in part else None
        if part not in _PLACES:
            return _NO_PLACE
        known = self._known.of(_PLACES[part])
        return None if known is Names.SURE else known.value

    def _matches_something(self, topic_filter: str) -> bool:
        try:
            _FILTER.validate_python(topic_filter)
        except ValidationError:
            self._read.left.append(f"{topic_filter} is left out: no topic matches it")
            return False
        return True


def _of_wildcards(rule: Rule) -> Iterator[Rule]:
    """What a rule denies to a client with a wildcard in its name, which EMQX puts into the filter, and ours do not."""
    for place, key in (("{username}", "users"), ("{client_id}", "client_ids")):
        wide = [f"{each.partition(place)[0].rpartition('/')[0]}/#" for each in rule["topics"] if place in each]
        if wide and (key not in rule or any(set(each) & set("+#*?[") for each in rule[key])):
            yield {**rule, "topics": [each.removeprefix("/") for each in wide], key: rule.get(key) or ["*+*", "*#*"]}


def _network(text: str) -> str:
    """The network, as it is written if that is one of ours. Raises ValueError."""
    found = ip_network(text, strict=False)
    return text if text.partition("/")[0] == str(found.network_address) else str(found)


def _bounded(found: Alternatives) -> Alternatives:
    if len(found) > _MOST_ALTERNATIVES:
        raise ValueError(f"found a rule of more than {_MOST_ALTERNATIVES} conditions: write several rules")
    return found
