"""What of a session can be observed, held to the model."""

from typing import Final

from session.counters import Counters
from session.mqueue import MQueue as RealMQueue
from session.pacing import Pacing
from session.uncommon_counts import UncommonCounts
from tests.model.books import Books
from tests.model.mqueue import MQueue
from tests.model.pacing import Pacer
from tests.model.real import Real, text_of
from tests.model.session import Model
from tests.model.source import Source
from tests.model.state import TIMES, Inflight

COLUMNS: Final = sorted(
    name
    for counts in (Counters(0), UncommonCounts())
    for name in dir(counts)
    if not name.startswith("_")
    and isinstance(getattr(counts, name), int)
    and name not in {"dropped_queue_full", "away"}
)
"""Everything that is counted, so that nothing new is forgotten; but for a sum of what `drops` says, and a state."""
GAUGES: Final = {
    "window_len", "window_max", "window_limit", "max_inflight", "window_bytes", "mqueue_len", "mqueue_bytes",
    "awaiting_rel_len", "waiting_qos0", "waiting_qos1", "waiting_qos2", *TIMES,
}  # fmt: skip
"""What is filled in only when an interval ends."""
HISTOGRAMS: Final = (
    "mailbox_buckets", "wait_qos0_buckets", "wait_qos1_buckets", "wait_qos2_buckets",
    "ack_qos1_buckets", "ack_qos2_buckets",
)  # fmt: skip
_PHASES: Final = {1: "PUBACK", 2: "PUBREC", 3: "PUBCOMP"}


def compare(model: Model, real: Real) -> None:
    """Compare everything that holds between two steps."""
    session = real.session
    outbound = real.outbound
    _agree("connected", model.connected, outbound.sender.connected)
    _agree("away", not model.connected, outbound.sender.counters.away)
    _agree("congested", model.congested, outbound.sender.congested)
    _agree("reports", model.reports, real.reports)
    entries = [
        (packet_id, text_of(entry.publish), _PHASES[entry.phase], entry.sent_at)
        for packet_id, entry in outbound.sender.window.entries.items()
    ]
    _agree("window", [_entry(inflight) for inflight in model.window], entries)
    mqueue = outbound.mqueue
    queued = [text_of(publish) for publish in mqueue] if mqueue is not None else []
    _agree("mqueue", [message.text for message in model.mqueue.in_order()], queued)
    _agree("mailbox", len(model.mailbox), outbound.mailbox.length())
    _agree("mailbox busy", model.mailbox_busy, outbound.mailbox.busy)
    _agree("awaiting PUBREL", len(model.inbound.awaiting_rel), session.inbound.awaiting_rel_len)
    ids = session.inbound._ids
    forgotten = ids.forgotten if ids is not None else None
    _agree("forgotten ids", set(model.inbound.forgotten), forgotten or set())
    waiting = ids.waiting if ids is not None else None
    _agree("waiting for an id", [w[0] for w in model.inbound.waiting], list(waiting.publishes) if waiting else [])
    byte_window = outbound.sender.throttle.byte_window if outbound.sender.throttle is not None else None
    _agree("bytes on the way", model.bytes_on_the_way(), byte_window.bytes if byte_window is not None else 0)
    _compare_counts(model, outbound.sender.counters)
    _agree("window_max", model.books.counts["window_max"], outbound.sender.window.most)
    assert outbound.paces() or not model.pacer.on, "the router does not ask"
    _compare_addresses(model, real)
    _compare_promises(model, real)


def compare_queue(model: MQueue, books: Books, mqueue: RealMQueue | None, counters: Counters) -> None:
    """Compare the queue of a group, and the group's own books."""
    queued = [text_of(publish) for publish in mqueue] if mqueue is not None else []
    _agree("shared queue", [message.text for message in model.in_order()], queued)
    for name in COLUMNS:
        _agree(name, books.counts[name], counters.column(name))
    _agree("drops", dict(books.drops), counters.drops or {})
    for qos in range(3):
        gone = sum(books.counts[f"{name}_qos{qos}"] for name in ("sent", "dropped", "superseded"))
        waiting = sum(message.qos == qos for message in model.waiting)
        assert books.counts[f"offered_qos{qos}"] == gone + waiting, f"the group's books of QoS {qos}"


def compare_pacing(model: Pacer, pacing: Pacing | None, sources: list[Source]) -> None:
    """Compare whom a queue holds back (FC-16), and how much patience it has left."""
    _agree("whether it paces", model.on, pacing is not None and pacing.active)
    _agree("whom it holds back", [s.name for s in sources if s.model in model.held], _held_by(pacing, sources))
    if pacing is not None:
        _agree("how many it holds back", len(model.held), len(pacing._paused))
        _agree("its patience", model.bucket.level.__floor__(), pacing.patience.left(model.now))


def _held_by(pacing: Pacing | None, sources: list[Source]) -> list[str]:
    paused = pacing._paused if pacing is not None else {}
    return [source.name for source in sources if source.real.outbound.publisher in paused]


def _entry(inflight: Inflight) -> tuple[int, str, str, int]:
    return inflight.packet_id, inflight.message.text, inflight.waits_for, inflight.sent_at


def _compare_counts(model: Model, counters: Counters) -> None:
    counts = model.books.counts
    for qos in range(3):  # what is in the mailbox is offered when it is taken up
        in_mailbox = sum(message.qos == qos for message in model.mailbox)
        counts[f"offered_qos{qos}"] = counts[f"routed_qos{qos}"] - in_mailbox
        counts[f"waiting_start_qos{qos}"] = model.waiting_start[qos]
    for name in COLUMNS:
        if name not in GAUGES and name != "interval_start":
            _agree(name, counts[name], counters.column(name))
    _agree("drops", dict(model.books.drops), counters.drops or {})


def _compare_addresses(model: Model, real: Real) -> None:
    for topic, address in real.addresses.items():
        _agree(f"held of {topic}", model.held_of(topic), address.size)


def _compare_promises(model: Model, real: Real) -> None:
    """What must happen later is asked for: a pass, or a timer that comes early enough."""
    timer_at = real.timer_at
    if not model.over:
        _agree("when the timer fires", real.outbound.sender.timer_at, timer_at)
    if model.connected and not real.awake and not real.timer_due():
        assert not model.has_work(), "something may go, and the session sleeps"
    due_at = model.deadline()
    if due_at is not None and not real.awake:
        assert 0 < timer_at <= due_at, f"due at {due_at}, the session's timer is at {timer_at}"


def compare_interval(model: Model, books: Books, counters: Counters) -> None:
    """Compare all that an interval has counted, and that offered = sent + dropped + superseded + waiting."""
    _agree("interval_start", books.interval_start, counters.interval_start)
    for name in COLUMNS:
        if name != "interval_start":
            _agree(name, books.counts[name], counters.column(name))
    _agree("drops", dict(books.drops), counters.drops or {})
    for name in HISTOGRAMS:
        histogram = getattr(counters, name)
        _agree(name, books.histogram(name), histogram.counts() if histogram is not None else {})
    for qos in range(3):
        before, gone = (
            sum(counters.column(f"{name}_qos{qos}") for name in names)
            for names in (("waiting_start", "offered"), ("sent", "dropped", "superseded", "waiting"))
        )
        assert before == gone, f"the books of QoS {qos}"


def _agree(about: str, expected: object, found: object) -> None:
    assert expected == found, f"{about}: the model has {expected!s:.600}, the session {found!s:.600}"
