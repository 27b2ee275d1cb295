"""What a round is: the broker's configuration, the clients and their habits. All drawn from the seed."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.soak.checker import Rules

AREAS: Final = 4
KINDS: Final = 3
GROUPS: Final = ("$share/steady/g/0/#", "$share/changing/g/1/#", "$share/both/g/#")
"""Shared filters. Nobody ends a session that takes part in the first."""
POLICIES: Final = ("mixed", "", "block", "page", "drop", "fail")
"""What the addresses of a round do when they are full; empty = there are none.
Each round in which nothing may be lost takes the next one."""
OVERFLOWS: Final = ("drop_oldest", "drop_oldest_qos0", "drop_newest")
FILTERS: Final = (
    ("t/#",),
    ("t/1/#",),
    ("t/+/0",),
    ("t/2/1",),
    ("t/0/+", "t/+/2"),
    ("t/3/0", "t/3/#"),
    ("t/+/1", "t/2/#", "t/2/1"),
    ("g/#", "t/0/0"),
)
"""Filters of one subscriber, some of which overlap."""


@dataclass(frozen=True)
class PublisherPlan:
    """A client that publishes. Rates are messages a second."""

    number: int
    version: int
    kept: bool
    window: int
    """QoS 1 and 2 unacknowledged at once, if the broker allows as many."""
    rate: float
    burst: int
    """Messages that come together."""
    weights: tuple[int, int, int]
    """Of QoS 0, 1 and 2."""
    keep_alive: int

    @property
    def client_id(self) -> str:
        """What it calls itself."""
        return f"publisher-{self.number}"


@dataclass(frozen=True)
class SubscriberPlan:
    """A client that subscribes, and how well it keeps up."""

    number: int
    version: int
    kept: bool
    filters: dict[str, int]
    receive_maximum: int
    """0 = it states none."""
    aliases: int
    pace: float
    """Seconds that it takes over each message."""
    late: float
    """Chance of an acknowledgement to be late by up to two seconds."""
    withheld: float
    """Chance of an acknowledgement not to come before the next connection."""
    stays: float
    """Seconds for which it stays connected, on average."""
    restarts: float
    """Chance that it comes back with a new session."""
    keep_alive: int

    @property
    def client_id(self) -> str:
        """What it calls itself."""
        return f"subscriber-{self.number}"


@dataclass(frozen=True)
class RoundPlan:
    """One round."""

    seed: int
    number: int
    seconds: float
    """How long things go wrong."""
    every: float
    """Seconds between two troubles of one connection, on average."""
    sections: dict[str, Any]
    flags: tuple[str, ...]
    rules: Rules
    restarts: int = 0
    """How often the broker is killed or stopped, and started again on its journal."""
    publishers: list[PublisherPlan] = field(default_factory=list)
    subscribers: list[SubscriberPlan] = field(default_factory=list)

    @property
    def key(self) -> str:
        """What all draws of the round come from."""
        return f"{self.seed}/{self.number}"

    @property
    def addresses(self) -> list[dict[str, Any]]:
        """Its addresses, as they are configured."""
        configured: list[dict[str, Any]] = self.sections["addresses"]
        return configured


def topics() -> list[str]:
    """All that is published to."""
    return [f"{space}/{area}/{kind}" for space in "tg" for area in range(AREAS) for kind in range(KINDS)]


def draw(seed: int, number: int, sessions: int, seconds: float, rate: float) -> RoundPlan:
    """Return the plan of a round. `rate` is messages a second of all publishers together."""
    draws = random.Random(f"{seed}/{number}")
    lossless = number % 2 == 0
    policy = POLICIES[number // 2 % len(POLICIES)] if lossless else draws.choice(POLICIES)
    session = _session(draws, lossless, number)
    addresses = _addresses(draws, policy)
    sections: dict[str, Any] = {
        "session": session,
        "addresses": addresses,
        "mqtt": {"sys_interval": "1s"},
    }
    restarts = random.Random(f"{seed}/{number} restarts").choice((0, 2)) if lossless else 0
    rules = Rules(
        lossless,
        restarts,
        discarding=tuple(address["match"] for address in addresses if _discards(address)),
        uncertain=tuple(address["match"] for address in addresses),
        one_at_a_time=session["max_inflight"] == 1 and not addresses and "mqueue_priorities" not in session,
    )
    flags = ("--no-developer-gate",) if draws.random() < 0.2 else ()
    publishers = max(2, sessions // 5)
    return RoundPlan(
        seed,
        number,
        seconds,
        draws.choice((1.0, 2.0, 5.0)),
        sections,
        flags,
        rules,
        restarts,
        [_publisher(draws, n, rate / publishers) for n in range(publishers)],
        [_subscriber(draws, n) for n in range(sessions - publishers)],
    )


def with_folders(plan: RoundPlan, folder: Path) -> dict[str, Any]:
    """The sections, with what the broker writes below `folder`: a journal for pages (FC-26) and restarts (FC-27)."""
    journals = plan.restarts or any(address["full_policy"] == "page" for address in plan.addresses)
    return plan.sections | {
        "metrics": {"directory": str(folder / "metrics"), "interval": "1s"},
        "persistence": {"directory": str(folder / "journal") if journals else None},
    }


def _session(draws: random.Random, lossless: bool, number: int) -> dict[str, Any]:
    session: dict[str, Any] = {
        "max_inflight": draws.choice((1, 4, 32, 32, "infinity")),
        "mqueue_store_qos0": draws.random() < 0.5,
        "retry_interval": draws.choice(("1s", "30s", "infinity")),
        "receive_maximum": draws.choice((4, 32)),
        "stalled_window": draws.choice(("1s", "infinity")),
        "max_mqueue_len": 100_000,
        "producer_window_size": draws.choice((1000, "64KiB")),
    }
    if not lossless:
        session["max_mqueue_len"] = draws.choice((5, 20, 100))
        session["mqueue_overflow"] = OVERFLOWS[number // 2 % len(OVERFLOWS)]
        if draws.random() < 0.5:
            session["max_mqueue_bytes"] = draws.choice(("4KiB", "32KiB"))
    if draws.random() < 0.4:
        session["consumer_window_size"] = draws.choice((0, "2KiB", "16KiB"))
    if draws.random() < 0.3:
        session["consumer_max_rate"] = draws.choice((200, 1000))
    if draws.random() < 0.3:
        session["producer_max_rate"] = draws.choice((20, 200))
    if draws.random() < 0.4:
        weights = [("t/0/#", 200), ("t/+/1", 5), ("g/1/#", 20)]
        session["mqueue_priorities"] = [{"match": match, "weight": weight} for match, weight in weights]
    if draws.random() < 0.4:
        policy = draws.choice(("notify", "disconnect"))
        session["slow_consumer"] = {"threshold": draws.choice((1, 20)), "check_period": "1s", "policy": policy}
    session["overflow_patience"] = draws.choice(("0s", "500ms", "5s"))
    return session


def _addresses(draws: random.Random, policy: str) -> list[dict[str, Any]]:
    if not policy:
        return []
    if policy != "mixed":
        matching = dict.fromkeys(draws.sample(("t/0/#", "t/1/#", "t/+/1", "g/#", "#"), 2), policy)
    else:
        matching = {"t/0/#": "block", "t/1/#": "page", "t/2/+": "drop", "t/3/0": "fail"}
        matching |= {"g/0/#": "block", "g/1/0": "page"}
    return [_address(draws, match, policy) for match, policy in matching.items()]


def _address(draws: random.Random, match: str, policy: str) -> dict[str, Any]:
    address = {"match": match, "full_policy": policy, "max_size_bytes": draws.choice((2000, 65_536, 262_144))}
    if policy == "block":
        address["block_timeout"] = draws.choice(("1s", "30s", "infinity"))
        if draws.random() < 0.3:
            address["reject_threshold_bytes"] = address["max_size_bytes"] * 2
    elif policy == "page" and draws.random() < 0.5:
        address["page_limit_bytes"] = draws.choice((4096, 65_536))
        address["page_full_policy"] = draws.choice(("drop", "fail"))
    return address


def _discards(address: dict[str, Any]) -> bool:
    return address["full_policy"] == "drop" or address.get("page_full_policy") == "drop"


def _publisher(draws: random.Random, number: int, rate: float) -> PublisherPlan:
    return PublisherPlan(
        number,
        version=draws.choice((4, 5)),
        kept=draws.random() < 0.8,
        window=draws.choice((1, 5, 30)),
        rate=rate * draws.uniform(0.3, 1.7),
        burst=draws.choice((1, 1, 10, 60)),
        weights=draws.choice(((1, 1, 1), (8, 1, 1), (0, 1, 1), (1, 4, 4))),
        keep_alive=draws.choice((0, 0, 3)),
    )


def _subscriber(draws: random.Random, number: int) -> SubscriberPlan:
    filters = {text: draws.randrange(3) for text in draws.choice(FILTERS)}
    kept = draws.random() < 0.7
    restarts = draws.choice((0.0, 0.0, 0.3)) if kept else 0.0
    if number % 3 == 0:
        filters |= _membership(draws, filters, steady=kept and not restarts)
    return SubscriberPlan(
        number,
        version=draws.choice((4, 5)),
        kept=kept,
        filters=filters,
        receive_maximum=draws.choice((0, 1, 3, 20)),
        aliases=draws.choice((0, 8)),
        pace=draws.choice((0.0, 0.0, 0.0, 0.002, 0.02)),
        late=draws.choice((0.0, 0.05, 0.3)),
        withheld=draws.choice((0.0, 0.005)),
        stays=draws.choice((3.0, 6.0, 1000.0)),
        restarts=restarts,
        keep_alive=draws.choice((0, 0, 3)),
    )


def _membership(draws: random.Random, filters: dict[str, int], steady: bool) -> dict[str, int]:
    """A group to take part in, unless one of the filters takes the same topics."""
    if any(text.startswith("g/") for text in filters):
        return {}
    if steady:
        return {draws.choice(GROUPS): 2}
    # Whoever ends its session takes QoS 2 along that it has not acknowledged: that is not what is asked here.
    return {draws.choice(GROUPS[1:]): 1}
