"""Random rule sets. Each is about topics, users and client ids of its own, so that one broker can have many at once."""

import itertools
import random
from dataclasses import dataclass
from typing import Any, Final

from broker.auth.permissions import Who
from config.rule import Rule
from tests.support.broker.reference_rules import LEVELS, NAMES

ROLES: Final = ("ops", "night", "a")
HOSTS: Final = ("127.0.0.1", "127.0.0.9")
LISTENERS: Final = ("local", "xyz")
CLIENTS: Final = 4
"""Of each set; the last one subscribes to shared subscriptions only."""

_PLACES: Final = ("{username}", "{client_id}", "{role}", "x{username}")


@dataclass(frozen=True)
class RuleSet:
    """Rules before and after a change, and the clients that they are about."""

    number: int
    before: list[Rule]
    after: list[Rule]
    clients: list[Who]

    @property
    def top(self) -> str:
        """The first level of its topics."""
        return f"s{self.number}"

    def topics(self) -> list[str]:
        """All topics that are tried: those of up to two levels below its own, and names of its clients."""
        names = {who.client_id for who in self.clients} | {who.user for who in self.clients if who.user}
        plain = [name for name in sorted(names) if not set(name) & set("+#/")]
        levels = (*LEVELS, *plain, *(f"x{name}" for name in plain), *ROLES[:2])
        deep = ["/".join(each) for each in itertools.product(LEVELS, repeat=2)]
        return [f"{self.top}/{each}" for each in dict.fromkeys((*levels, *deep))]


def rule_set(number: int, rng: random.Random) -> RuleSet:
    """A rule set with its clients."""
    top = f"s{number}"
    # What no rule of a set is about is denied or allowed, as its last rule says.
    before, after = ([_rule(top, rng) for _ in range(rng.randint(0, 5))] for _ in range(2))
    for rules in (before, after):
        if rng.random() < 0.5:
            rules.append(Rule(permit="allow", topics=[f"{top}/#"]))
    ids = rng.sample((*NAMES, "b1", "{username}"), CLIENTS)
    return RuleSet(number, before, after, [_client(f"{top}-{name}", top, rng) for name in ids])


def topic_filter(top: str, rng: random.Random, *more: str) -> str:
    """A topic filter below the first level of a set."""
    levels = [rng.choice((*LEVELS, "+", *more)) for _ in range(rng.randint(0, 1))]
    return "/".join([top, *levels, rng.choice((*LEVELS, "+", "#", *more))])


def _rule(top: str, rng: random.Random) -> Rule:
    keys: dict[str, Any] = {
        "permit": rng.choice(("allow", "deny")),
        "topics": [topic_filter(top, rng, *_PLACES) for _ in range(rng.randint(1, 2))],
        "action": rng.choice(("publish", "subscribe", "all")),
        "users": [f"{top}-{each}" for each in _some(rng, "ann", "b*", "[ab]*", "+")],
        "roles": _some(rng, "ops", "o?s", "night"),
        "client_ids": [f"{top}-{each}" for each in _some(rng, "a", "b*", "a/b")],
        "listeners": _some(rng, "local", "x*"),
        "addresses": _some(rng, "127.0.0.1", "127.0.0.0/8", "10.0.0.0/8", "::1"),
        "qos": _some(rng, 0, 1, 2),
    }
    if keys["action"] != "subscribe":
        keys["retain"] = rng.choice((None, None, True, False))
    return Rule.model_validate(keys)


def _some(rng: random.Random, *choices: Any) -> list[Any]:
    """Mostly no condition, else one or two."""
    return rng.sample(choices, rng.randint(1, 2)) if rng.random() < 0.3 else []


def _client(client_id: str, top: str, rng: random.Random) -> Who:
    name = rng.choice((None, *NAMES))
    roles = frozenset(rng.sample(ROLES, rng.randint(0, 2))) if name else frozenset()
    user = None if name is None else f"{top}-{name}"
    return Who(user, roles, client_id, rng.choice(HOSTS), rng.choice(LISTENERS), known=True)
