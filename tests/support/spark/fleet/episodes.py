"""Kinds of faults. Each decides what is sent in every row; the base class keeps the counters consistent."""

from dataclasses import dataclass, field
from typing import Final

from session.counters import Counters
from tests.support.spark.fleet.ordinary import WINDOW
from tests.support.spark.fleet.shapes import histogram

QOS: Final = (0, 1, 2)
QUEUE: Final = 1000
"""max_mqueue_len; further deliveries are dropped."""


@dataclass
class Draw:
    """The random input of one row; times in microseconds, `begin` on the monotonic clock."""

    begin: int
    length: int
    offered: list[int]
    received: int
    size: int


@dataclass
class Outcome:
    """The result of one row, decided by the kind of episode. Other deliveries keep waiting."""

    sent: list[int]
    dropped: dict[str, int] = field(default_factory=dict)
    """Column name to count."""
    wait: str = "wait_calm"
    ack: str = "ack_calm"
    busy: bool = False
    """Whether the mailbox was sampled busy."""
    connected: bool = True
    values: dict[str, int] = field(default_factory=dict)
    """Further columns."""


class Episode:
    """A part of a session: `steps` rows; the last one sends all waiting deliveries."""

    kind: str
    least: int = 2
    """Minimum and maximum number of rows."""
    most: int = 2

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.start = 0
        """The interval of its first row."""
        self.waiting = [0, 0, 0]
        self.step = 0
        self.connected = True

    @property
    def over(self) -> bool:
        """Whether its last row has been generated."""
        return self.step == self.steps

    def happens(self, draw: Draw) -> Outcome:
        """Decide on one row; may raise the deliveries offered. `waiting`: deliveries waiting at its start."""
        raise NotImplementedError

    def ends(self, draw: Draw) -> Outcome:
        """The last row: all waiting deliveries are sent."""
        return Outcome(self.all_of(draw), wait="wait_pressed" if sum(self.waiting) else "wait_calm")

    def all_of(self, draw: Draw) -> list[int]:
        """All deliveries waiting or offered."""
        return [waits + came for waits, came in zip(self.waiting, draw.offered, strict=True)]

    def row(self, draw: Draw) -> Counters:
        """The next row's counters."""
        last = self.step == self.steps - 1
        outcome = self.ends(draw) if last else self.happens(draw)
        self.step += 1
        self.connected = outcome.connected
        return self._books(draw, outcome)

    def _books(self, draw: Draw, outcome: Outcome) -> Counters:
        counters = Counters(draw.begin)
        for name, value in outcome.values.items():
            put(counters, name, value)
        counters.drops = outcome.dropped or None
        for qos in QOS:
            dropped = sum(count for name, count in outcome.dropped.items() if name.endswith(f"_qos{qos}"))
            waits = self.waiting[qos] + draw.offered[qos] - outcome.sent[qos] - dropped
            assert waits >= 0 <= min(outcome.sent), (self.kind, self.step, draw, outcome)
            put(counters, f"waiting_start_qos{qos}", self.waiting[qos])
            setattr(counters, f"offered_qos{qos}", draw.offered[qos])
            setattr(counters, f"sent_qos{qos}", outcome.sent[qos])
            put(counters, f"dropped_qos{qos}", dropped)
            put(counters, f"waiting_qos{qos}", waits)
            setattr(counters, f"wait_qos{qos}_buckets", histogram(outcome.wait, outcome.sent[qos]))
            self.waiting[qos] = waits
        _, one, two = outcome.sent
        counters.acknowledged_qos1, counters.acknowledged_qos2 = one, two
        counters.ack_qos1_buckets, counters.ack_qos2_buckets = histogram(outcome.ack, one), histogram(outcome.ack, two)
        counters.sent_bytes = sum(outcome.sent) * draw.size
        counters.received_qos0 += draw.received
        counters.received_bytes += draw.received * draw.size
        uncommon = counters.begin_uncommon()
        uncommon.window_limit = WINDOW
        uncommon.window_max = WINDOW if uncommon.window_full_us else min(one + two, 3)
        uncommon.mqueue_len = sum(self.waiting)
        counters.mqueue_max = max(uncommon.mqueue_len, sum(self.waiting))
        uncommon.mqueue_bytes = counters.mqueue_bytes_max = uncommon.mqueue_len * draw.size
        samples = min(sum(draw.offered), 60)
        counters.mailbox_samples = samples
        counters.mailbox_busy_samples = samples if outcome.busy else 0
        counters.mailbox_max = min(samples, 3) + (100 if outcome.busy else 0)
        counters.mailbox_buckets = histogram("mailbox_busy" if outcome.busy else "mailbox_calm", samples)
        return counters


def _at_least(draw: Draw, *least: int) -> None:
    """Raise the deliveries offered to these numbers by QoS."""
    draw.offered = [max(came, few) for came, few in zip(draw.offered, least, strict=True)]


class Starved(Episode):
    """A connected client that is offered deliveries, and is sent nothing for three intervals or more."""

    kind = "starved"
    least, most = 4, 13

    def happens(self, draw: Draw) -> Outcome:
        """Its connection is congested: the gate queues QoS 0, and everything waits."""
        _at_least(draw, 1, 2, 0)
        room = QUEUE - sum(self.waiting)
        draw.offered = [min(came, room // 3) for came in draw.offered]
        values = {"congested_us": draw.length, "gated_congested": draw.offered[0]}
        if self.step == 2:
            values["slow_consumer"] = 1
        return Outcome([0, 0, 0], busy=True, values=values)

    def ends(self, draw: Draw) -> Outcome:
        """It reads again, and gets the waiting deliveries."""
        return Outcome(self.all_of(draw), wait="wait_starved")


class Hiccup(Starved):
    """The same for two intervals only: not starved by the report's usual measure."""

    kind = "hiccup"
    least, most = 3, 3


class SlowReader(Episode):
    """A client that reads less than is offered: its window fills, QoS 0 is gated and in part dropped.

    Publishers are held back for it as long as they may be.
    """

    kind = "slow_reader"
    least, most = 6, 120
    _REASONS = ("congested", "window_full", "mailbox_busy", "backlog")

    def happens(self, draw: Draw) -> Outcome:
        """Some deliveries of each QoS are sent; QoS 0 beyond a small queue is dropped."""
        _at_least(draw, 6, 3, 0)
        came = self.all_of(draw)
        sent = [max(came[0] // 2, 1), max(came[1] * 2 // 3, 1), came[2]]
        over = max(came[0] - sent[0] - 100, 0)
        dropped = {"dropped_queue_full_qos0": over} if over else {}
        values = {
            "window_full_us": draw.length * 2 // 5,
            "congested_us": draw.length // 5,
            "paced_for_us": draw.length // 20,
            f"gated_{self._REASONS[self.step % 4]}": draw.offered[0],
        }
        return Outcome(sent, dropped, "wait_pressed", "ack_pressed", busy=self.step % 3 == 0, values=values)


class Inverted(Episode):
    """A session whose QoS 0 overtakes waiting QoS 1, as without the gate."""

    kind = "inverted"
    least, most = 5, 40

    def happens(self, draw: Draw) -> Outcome:
        """All QoS 0 is sent while QoS 1 waits, at the start and at the end from the second row on."""
        _at_least(draw, 5, 3, 0)
        draw.offered[1] = min(draw.offered[1], 20)
        values = {"window_full_us": draw.length, "resent_publish": 1}
        return Outcome([draw.offered[0], 1, 0], ack="ack_pressed", values=values)


class Stalled(Episode):
    """A client that stops acknowledging: its window stays full, which is reported."""

    kind = "stalled"
    least, most = 3, 3

    def happens(self, draw: Draw) -> Outcome:
        """First a window's worth is sent, then nothing."""
        _at_least(draw, 1, 4, 0)
        if self.step == 0:
            values = {"window_full_us": draw.length // 2, "gated_window_full": draw.offered[0]}
            return Outcome([0, 2, 0], ack="ack_pressed", values=values)
        values = {
            "window_full_us": draw.length,
            "gated_window_full": draw.offered[0],
            "stalled_window": 1,
            "resent_publish": 2,
        }
        return Outcome([0, 0, 0], busy=True, values=values)


class Dropping(Episode):
    """A session that loses deliveries of every QoS, for one reason after the other."""

    kind = "dropping"
    least, most = 3, 10
    _REASONS = ("queue_full", "expired", "too_large")

    def happens(self, draw: Draw) -> Outcome:
        """Of each QoS one third, at least one, is dropped; the rest is sent."""
        _at_least(draw, 2, 2, 2)
        reason = self._REASONS[self.step % 3]
        lost = [max(came // 3, 1) for came in draw.offered]
        sent = [came - gone for came, gone in zip(draw.offered, lost, strict=True)]
        dropped = {f"dropped_{reason}_qos{qos}": lost[qos] for qos in QOS}
        return Outcome(sent, dropped, values={"congested_us": draw.length // 10})


class Offline(Episode):
    """A client that is offline for a while: its session keeps QoS 1 and 2, and drops QoS 0. It is not starved."""

    kind = "offline"
    least, most = 5, 30

    def happens(self, draw: Draw) -> Outcome:
        """Nothing is sent to an offline client."""
        _at_least(draw, 1, 2, 0)
        draw.received = 0
        room = QUEUE - sum(self.waiting)
        draw.offered[1:] = [min(came, room // 3) for came in draw.offered[1:]]
        return Outcome([0, 0, 0], {"dropped_offline_qos0_qos0": draw.offered[0]}, connected=False)

    def ends(self, draw: Draw) -> Outcome:
        """It reconnects, and gets the waiting deliveries."""
        return Outcome(self.all_of(draw), wait="wait_starved")


class Publisher(Episode):
    """A client that publishes far more than others, and is throttled."""

    kind = "publisher"
    least, most = 6, 240

    def happens(self, draw: Draw) -> Outcome:
        """Its deliveries are normal, its PUBLISHes are not."""
        loud = 1000 + 701 * (self.step % 10)
        values = {
            "received_qos1": loud,
            "received_bytes": loud * 500,
            "publish_refused": loud // 50,
            "publish_parked": loud // 20,
            "publish_parked_us": loud * 1000,
            "publish_throttled_us": draw.length // 5,
            "publish_paced_us": draw.length // 20,
            "reading_paused_us": draw.length // 4,
        }
        return Outcome(list(draw.offered), values=values)


KINDS: Final[tuple[type[Episode], ...]] = (
    Starved,
    Hiccup,
    SlowReader,
    Inverted,
    Stalled,
    Dropping,
    Offline,
    Publisher,
)


def put(counters: Counters, name: str, value: int) -> None:
    """Set a column, by its name."""
    setattr(counters if hasattr(counters, name) else counters.begin_uncommon(), name, value)
