"""Draws what a round of the ledger is like from a seed: the configuration, and what goes wrong."""

import random
from dataclasses import dataclass
from typing import Any, Final

DELIVERIES: Final = 60_000
"""Of a round, about."""

TROUBLES: Final = ("away", "back", "end", "rules", "stall", "slow", "kill", "stop")
LARGE: Final = (8_000, 20_000)
"""Bytes of payloads where the disk gets full, so that the segments that are there already do."""

FULL: Final = 0.3, 0.7
"""After which parts of the deliveries the disk is full, and has room again."""


@dataclass(frozen=True)
class Plan:
    """One round."""

    seed: int
    number: int
    deliveries: int
    sections: dict[str, Any]
    troubles: list[tuple[float, str]]
    """What happens after which part of the deliveries."""
    expiring: float
    """The share of the messages that expires."""
    window: int
    """Of each publisher."""
    sums: bool
    """Whether drop events have a rate, past which they are sums."""
    large: bool
    """Whether payloads are large."""

    @property
    def rng(self) -> random.Random:
        """For what is drawn while it runs."""
        return random.Random(f"{self.seed} {self.number} run")

    @property
    def paces(self) -> tuple[float, ...]:
        """Deliveries a second of slow receivers; with `block` all publishers wait for them."""
        return (500.0, 2_000.0) if self.sections["session"]["mqueue_overflow"] == "block" else (20.0, 100.0, 500.0)

    @property
    def conflates(self) -> bool:
        """Whether only the newest delivery of some topics waits."""
        return "conflate" in self.sections["session"]

    @property
    def counts_superseded(self) -> bool:
        """Whether one broker counts all that is superseded."""
        return self.conflates and not {"kill", "stop"} & {what for _, what in self.troubles}

    def words(self) -> str:
        """What is special about it."""
        session = self.sections["session"]
        found = [session["mqueue_overflow"], f"queue {session['max_mqueue_len']}"]
        found += [key for key in ("max_mqueue_age", "conflate") if key in session]
        found += ["expiry"] * bool(self.expiring) + ["sums"] * self.sums
        return ", ".join(found + sorted({what for _, what in self.troubles}))


def draw(seed: int, number: int, deliveries: int, can_fill: bool) -> Plan:
    """The round of this number. `can_fill`: whether the disk can be full in it."""
    rng = random.Random(f"{seed} {number}")
    session: dict[str, Any] = {
        "max_inflight": rng.choice([4, 32, 200]),
        "max_mqueue_len": rng.choice([5, 50, 300, 1_000]),
        "mqueue_overflow": rng.choice(["drop_oldest", "drop_oldest_qos0", "drop_newest", "reject", "reject", "block"]),
        "overflow_timeout": "1s",
        "overflow_patience": rng.choice(["0s", "0s", "1s"]),
        "mqueue_fairness": rng.choice(["fifo", "fifo", "publisher"]),
        "await_rel_timeout": "infinity",
    }
    if rng.random() < 0.3:
        session["max_mqueue_age"] = "1s"
    sums, full = rng.random() < 0.2, rng.random() < 0.25 and can_fill
    if rng.random() < 0.5 and not sums:  # else nobody knows which are superseded, and which are in the sums
        session["conflate"] = ["c/#"]
    troubles = [(rng.uniform(0.05, 0.95), rng.choice(TROUBLES)) for _ in range(rng.randint(4, 12))]
    if sums or full:  # FC-35: a crash loses sums, and an end of the broker what is not written while the disk is full
        troubles = [(at, what) for at, what in troubles if what != "kill" and not (full and what == "stop")]
    if full:  # FC-29: until there is room, no session begins
        begins, ends = FULL
        troubles = [(at, what) for at, what in troubles if what != "end" or not begins < at < ends]
        troubles += [(begins, "full"), (ends, "room")]
    return Plan(
        seed,
        number,
        deliveries,
        {
            "session": session,
            "drop_events": {"payload": "copy", "max_rate": rng.choice([20, 200]) if sums else "infinity"},
            "memory": rng.choice(["256MiB", "64KiB"]),
        },
        sorted(troubles),
        expiring=rng.choice([0.0, 0.0, 0.3]),
        window=rng.choice([10, 100]),
        sums=sums,
        large=full,
    )
