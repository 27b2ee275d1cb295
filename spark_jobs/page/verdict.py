"""What a report says in words: who is treated unfairly, since when, and why; and what changed.

Plain text, without markup: the page and summary.json both show it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spark_jobs import words
from spark_jobs.measures.result import Result, Row

WELL_SERVED: Final = 0.95  # delivery ratio below which a session counts as having got less than its share
ALIKE: Final = 0.99  # Jain's index of the delivery ratio from which on sessions count as treated alike
NEARLY_ALL: Final = 0.8  # share of the unfairly treated sessions that makes something typical of them
HOUR: Final = 3_600_000_000
TELLING: Final = 1.5  # factor from which on a difference is told though there is too little data to judge it
LARGER: Final = "larger than noise"
TOO_LITTLE: Final = "too little data"
_AWAY: Final = frozenset({"offline", "offline_qos0", "session_ended"})  # reasons that lie with the client alone
BACKLOG: Final = "backlog"
_LESS: Final = f"{WELL_SERVED * 100:.0f}{words.NARROW_SPACE}%"
_HARMLESS: Final = frozenset({"older", "appears_once", "awkward_id"})  # findings about input that spoil no figure
_SUBJECTS: Final = {
    "ack_qos1_p99": "the 99th percentile of QoS 1 acknowledgement",
    "ack_qos2_p99": "the 99th percentile of QoS 2 acknowledgement",
    "wait_qos0_p99": "the 99th percentile of QoS 0 waiting",
}
_SIDES: Final = ("baseline", "value")
# What makes a headline before anything else that changed.
_LEADING: Final = frozenset(
    {"ack_qos1_p99", "ack_qos2_p99", "wait_qos0_p99", "starved_sessions", "delivery_ratio", "delivery_ratio_qos0"}
)
_MOVES: Final = 4  # changed measures that a sentence tells
_NAMED: Final = 2  # sessions that a sentence names
_NAME_LENGTH: Final = 32

# For one session, for several, and what that says of it.
_BECAUSE: Final = {
    "window_full": ("its window was full", "their windows were full", "a sign of late acknowledgement"),
    "window_bytes_full": (
        "its window was full in bytes",
        "their windows were full in bytes",
        "a sign of late acknowledgement",
    ),
    "rate_limited": ("its rate was used up", "their rates were used up", "less is allowed than is asked for"),
    "congested": (
        "its send path was congested",
        "their send paths were congested",
        "a sign that client or network reads slowly",
    ),
    "queue_full": ("its queue was full", "their queues were full", "more comes than it takes"),
    "queue_full_paced": (
        "its queue was full though publishers were held back for it",
        "their queues were full though publishers were held back for them",
        "more comes than it takes",
    ),
    "expired": ("messages expired while they waited", "messages expired while they waited", ""),
    "too_large": ("messages were larger than it takes", "messages were larger than they take", ""),
}


class Grade(IntEnum):
    """How much a finding matters."""

    GOOD = 0
    NOTE = 1
    WATCH = 2
    UNFAIR = 3


@dataclass(frozen=True)
class Finding:
    """One finding: how grave it is, its subject in a word or two, and what was found."""

    grade: Grade
    subject: str
    text: str


@dataclass(frozen=True)
class Trouble:
    """Sessions that were treated unfairly: rows of the worst of them, how many in words, and when."""

    rows: Sequence[Row]
    number: str
    several: bool
    since: str
    why: str


def headline(results: Sequence[Result]) -> str:
    """One sentence: who is treated unfairly, since when and why; of two runs, what changed."""
    return _headline_of(results[0]) if len(results) == 1 else _compared(results[0], results[1])


def sentences(results: Sequence[Result]) -> list[str]:
    """The findings as sentences: of two runs what changed, then of the last one, the gravest first."""
    result = results[-1]
    if len(results) == 1:
        return [f"{finding.subject}: {finding.text}" for finding in findings(result)]
    of = words.name(result.label)
    named = [f"{of}, {words.inside(finding.subject)}: {finding.text}" for finding in findings(result)]
    return [*[f"{change.subject}: {change.text}" for change in changes(results[0], result)], *named]


def findings(result: Result) -> list[Finding]:
    """What was found in a run, the gravest first."""
    found = [
        *_starved(result),
        *_poorly_served(result),
        *_inverted(result),
        *_drops(result),
        *_pressure(result),
        *_fair(result),
        *_input(result),
    ]
    return sorted(found, key=lambda finding: -finding.grade)


def _headline_of(result: Result) -> str:
    total = result.maybe("totals", qos="all")
    if total is None or not total["offered"]:
        return "Nothing was offered to any session."
    starved = starvation(result)
    if starved is not None:
        were = "were" if starved.several else "was"
        of = f"{starved.number} of {words.counted(result.facts.sessions, 'session')} {were} starved"
        return f"{of}{starved.since}{_mostly(starved)}."
    poor = poorly_served(result)
    if poor is not None:
        were = "were" if poor.several else "was"
        return f"{poor.number} {were} sent less than {_LESS} of what was offered{poor.since}{_mostly(poor)}."
    row = result.maybe("fairness", scope="all", qos="all")
    if row is None or row["jain_delivery_ratio"] is None:
        return "Nothing that was offered was sent."
    if row["jain_delivery_ratio"] < ALIKE:
        return f"Sessions were treated unequally: Jain’s index is {words.index(row['jain_delivery_ratio'])}."
    return (
        "No session was treated unfairly: each was sent at least "
        f"{words.percent(min(1.0, row['lowest_delivery_ratio'] or 0.0))} of what was offered to it, "
        "and none was starved."
    )


def _mostly(trouble: Trouble) -> str:
    if not trouble.why:
        return ""
    reason = words.reason(trouble.why)
    one, several, _ = _BECAUSE.get(trouble.why, (reason, reason, ""))
    return f", mostly because {several}" if trouble.several else f", because {one}"


def starvation(result: Result) -> Trouble | None:
    """The sessions that were starved; None if none was."""
    total = result.maybe("starvation", length="all")
    rows = result.rows_of("starved_worst")
    if total is None or not total["sessions"]:
        return None
    several = total["sessions"] > 1
    return Trouble(rows, f"{total['sessions']:,}", several, _when_starved(result, rows), _typical_why(rows))


def _when_starved(result: Result, rows: Sequence[Row]) -> str:
    """From when to when; the hours know of all starved sessions, the rows only of the worst but to the minute."""
    starts = [row["first_us"] for row in rows if row["first_us"] is not None]
    ends = [row["last_us"] for row in rows if row["last_us"] is not None]
    hours = [row["hour_us"] for row in result.rows_of("hours") if row["starved_sessions"]]
    if hours:
        if not starts or min(hours) < min(starts) // HOUR * HOUR:
            starts.append(min(hours))
        if not ends or max(hours) > max(ends):
            ends.append(min(max(hours) + HOUR, result.facts.last_us))
    return _when(starts, ends, result.facts.last_us)


def _when(starts: Sequence[int], ends: Sequence[int], last_us: int) -> str:
    if not starts or not ends:
        return ""
    if max(ends) >= last_us - 2 * 60_000_000:
        return f" from {words.minute(min(starts))} on, to the end"
    return f" from {words.between(min(starts), max(ends))}"


def poorly_served(result: Result) -> Trouble | None:
    """The sessions that were sent clearly less than was offered to them; None if none was."""
    worst = result.rows_of("worst_sessions")
    # What waits for a client that is away was not kept from it.
    rows = [
        row
        for row in worst
        if row["delivery_ratio"] is not None and row["delivery_ratio"] < WELL_SERVED and row["why"] not in _AWAY
    ]
    if not rows:
        return None
    more = "At least " if len(rows) == len(worst) and len(worst) < result.facts.sessions else ""
    number = f"{more}{words.counted(len(rows), 'session')}"
    hours = [
        row["hour_us"]
        for row in result.rows_of("worst_hours")
        if row["delivery_ratio"] is not None and row["delivery_ratio"] < WELL_SERVED
    ]
    first, last = result.facts.first_us, result.facts.last_us
    since = _when([max(hour, first) for hour in hours], [min(hour + HOUR, last) for hour in hours], last)
    return Trouble(rows, number, len(rows) > 1, since, _typical_why(rows))


def _usual(rows: Sequence[Row]) -> str:
    """The most frequent reason; "" if none is known. That deliveries queue up is what is to be explained."""
    known = Counter(row["why"] for row in rows if row["why"] and row["why"] != BACKLOG)
    return max(known, key=lambda why: (known[why], why)) if known else ""


def _typical_why(rows: Sequence[Row]) -> str:
    """The reason of more than half of them; "" if there is none."""
    why = _usual(rows)
    return why if 2 * sum(row["why"] == why for row in rows) > len(rows) else ""


def _starved(result: Result) -> list[Finding]:
    trouble = starvation(result)
    if trouble is None:
        return []
    intervals = result.facts.starved_after
    were = "sessions had" if trouble.several else "session had"
    text = (
        f"{trouble.number} {were} deliveries waiting or offered and {'were' if trouble.several else 'was'} "
        f"sent nothing for at least {intervals} intervals in a row{trouble.since}."
    )
    if trouble.rows:
        worst = trouble.rows[0]
        text += (
            f" Longest: {_named(worst)}, for {words.seconds(worst['longest_us'] / 1e6)} in a row, between "
            f"{words.between(worst['first_us'], worst['last_us']).replace(' to ', ' and ')}"
            f"{_others(trouble.rows[1 : 1 + _NAMED])}."
        )
    return [Finding(Grade.UNFAIR, "Starved", f"{text}{_typical(trouble.rows)}{_reasons_of(trouble.rows)}")]


def _named(row: Row) -> str:
    return f"“{words.name(row['client_id'], _NAME_LENGTH)}”"


def _others(rows: Sequence[Row]) -> str:
    return f"; then {words.listed([_named(row) for row in rows])}" if rows else ""


def _typical(rows: Sequence[Row]) -> str:
    """What nearly all of them have in common: broker, listener or topic group."""
    if len(rows) < 3:
        return ""
    found = []
    for column, noun in (("broker", "broker"), ("listener", "listener"), ("topic_group", "topic group")):
        values = Counter(row[column] for row in rows if row[column])
        if values:
            value, number = max(values.items(), key=lambda item: (item[1], item[0]))
            if number >= NEARLY_ALL * len(rows):
                found.append(f"{noun} “{words.name(value, _NAME_LENGTH)}”")
    return f" Nearly all of them are of {words.listed(found)}." if found else ""


def _reasons_of(rows: Sequence[Row]) -> str:
    why = _usual(rows)
    if not why:
        held = "it" if len(rows) == 1 else "them"
        return f" The metrics show no reason: neither window, rate nor send path held {held} up."
    reason = words.reason(why)
    one, several, meaning = _BECAUSE.get(why, (reason, reason, ""))
    means = f", {meaning}" if meaning else ""
    number = sum(row["why"] == why for row in rows)
    if len(rows) == 1:
        return f" Why: {one}{means}."
    many = f"all {len(rows)}" if number == len(rows) else f"{number} of the {len(rows)}"
    return f" Why, for {many} worst: {one if number == 1 else several}{means}."


def _poorly_served(result: Result) -> list[Finding]:
    trouble = poorly_served(result)
    if trouble is None:
        return []
    worst = trouble.rows[0]
    text = (
        f"{trouble.number} got less than {_LESS} of what was offered{trouble.since}. "
        f"Least: {_named(worst)} with {words.percent(worst['delivery_ratio'])}"
        f"{_others(trouble.rows[1 : 1 + _NAMED])}."
    )
    return [Finding(Grade.UNFAIR, "Served less", f"{text}{_typical(trouble.rows)}{_reasons_of(trouble.rows)}")]


def _inverted(result: Result) -> list[Finding]:
    row = result.maybe("inversion")
    if row is None:
        return []
    if not row["inverted_qos0"]:
        if not row["blocked_rows"]:
            return []
        text = f"No QoS 0 went past waiting QoS 1 or 2, in {row['blocked_rows']:,} intervals in which it could have."
        return [Finding(Grade.GOOD, "Order", text)]
    text = (
        f"{words.counted(row['inverted_qos0'], 'QoS 0 delivery').replace('deliverys', 'deliveries')} went past "
        f"waiting QoS 1 or 2, in {words.counted(row['sessions'], 'session')}: the gate should make that nil."
    )
    return [Finding(Grade.WATCH, "Order", text)]


def _drops(result: Result) -> list[Finding]:
    totals = {row["qos"]: row for row in result.rows_of("totals")}
    if "all" not in totals:
        return []
    dropped = totals["all"]["dropped"]
    if not dropped:
        return [Finding(Grade.GOOD, "Dropped", "Nothing was dropped.")]
    reasons: Counter[str] = Counter()
    for row in result.rows_of("reasons"):
        if row["what"] == "dropped":
            reasons[row["reason"]] += row["deliveries"]
    guaranteed = sum(totals[qos]["dropped"] for qos in ("1", "2") if qos in totals)
    held = f"{guaranteed:,} of them at QoS 1 and 2" if guaranteed else "all of them at QoS 0"
    first = max(reasons, key=lambda name: (reasons[name], name)) if reasons else ""
    why = f"; the most frequent reason: {words.reason(first)}" if first else ""
    return [Finding(Grade.WATCH if guaranteed else Grade.NOTE, "Dropped", f"{dropped:,} deliveries, {held}{why}.")]


def _pressure(result: Result) -> list[Finding]:
    total = result.maybe("totals", qos="all")
    if total is None or not total["seconds"]:
        return []
    if not total["pressure_seconds"]:
        return [Finding(Grade.GOOD, "Pressure", "No session was ever under pressure.")]
    part = words.percent(min(1.0, total["pressure_seconds"] / total["seconds"]))
    gated = [row for row in result.rows_of("reasons") if row["what"] == "gated" and row["deliveries"]]
    text = f"Some session was under pressure {part} of the time."
    if gated:
        first = max(gated, key=lambda row: (row["deliveries"], row["reason"]))
        number = sum(row["deliveries"] for row in gated)
        text += f" The gate queued {number:,} QoS 0 deliveries, mostly: {words.reason(first['reason'])}."
    return [Finding(Grade.NOTE, "Pressure", text)]


def _fair(result: Result) -> list[Finding]:
    row = result.maybe("fairness", scope="all", qos="all")
    if row is None or row["jain_delivery_ratio"] is None:
        return []
    jain = row["jain_delivery_ratio"]
    good = jain >= ALIKE and (row["lowest_delivery_ratio"] or 0) >= WELL_SERVED
    text = (
        f"Jain’s index of the delivery ratio over {words.counted(row['sessions'], 'session')} is "
        f"{words.index(jain)} (1 is all alike)"
    )
    if row["gini_goodput"] is not None:
        text += f"; Gini’s coefficient of goodput {words.index(row['gini_goodput'])} (0 is all alike)"
    return [Finding(Grade.GOOD if good else Grade.NOTE, "Evenness", f"{text}.")]


def _input(result: Result) -> list[Finding]:
    books = result.maybe("books", qos="all")
    found = []
    if books is not None and books["rows_off"]:
        text = (
            f"The books do not balance in {books['rows_off']:,} of {books['rows']:,} rows: "
            "offered is not sent + dropped + waiting there."
        )
        found.append(Finding(Grade.WATCH, "Books", text))
    rows = [row for row in result.rows_of("quality") if row["count"] and row["kind"] not in _HARMLESS]
    if rows:
        said = words.listed([words.quality(row["kind"], row["count"]) for row in rows])
        found.append(Finding(Grade.NOTE, "Input", f"Not all of it was sound: {said}; see data quality."))
    return found


def _clear(result: Result) -> list[Row]:
    """Measures that differ by more than noise, and visibly: over time two can differ that are the same in all."""
    rows = [row for row in result.rows_of("comparison") if row["verdict"] == LARGER]
    return [row for row in rows if row["difference"] and len({_shown(row, name) for name in _SIDES}) > 1]


def _shown(row: Row, side: str) -> str:
    return words.measured(row[side], row["unit"])


def _compared(before: Result, after: Result) -> str:
    clear, unproven = _clear(after), _unproven(after)
    rows = [*clear, *unproven]
    names = words.name(after.label), words.name(before.label)
    if not rows:
        return f"{names[0]} and {names[1]} do not differ by more than noise."
    better = [row for row in rows if row["better"] is True]
    worse = [row for row in rows if row["better"] is False]
    chosen = [_foremost(side) for side in (better, worse) if side] or [_foremost(rows)]
    caveat = " There is too little data to tell that from noise." if any(row in unproven for row in chosen) else ""
    return f"With {names[0]}, {', but '.join(map(moved, chosen))}.{caveat}"


def _unproven(after: Result) -> list[Row]:
    """Measures that differ a good deal, but of which there is too little data to tell."""
    rows = [row for row in after.rows_of("comparison") if row["verdict"] == TOO_LITTLE and row["better"] is not None]
    return sorted((row for row in rows if _factor(row) >= TELLING), key=_importance, reverse=True)


def _factor(row: Row) -> float:
    """By how much a measure changed, up or down alike."""
    if not row["baseline"] or not row["value"]:
        return math.inf if row["difference"] else 1.0
    return float(max(row["value"] / row["baseline"], row["baseline"] / row["value"]))


def _foremost(rows: Sequence[Row]) -> Row:
    """The leading measure that changed most; any other only if there is none."""
    return max(rows, key=_importance)


def _importance(row: Row) -> tuple[bool, float]:
    return row["measure"] in _LEADING, _factor(row)


def moved(row: Row) -> str:
    """A changed measure in words: starved sessions fell from 14 to 0."""
    verb = "rose" if (row["difference"] or 0) > 0 else "fell"
    subject = _SUBJECTS.get(row["measure"], words.inside(row["name"]))
    return f"{subject} {verb} from {_shown(row, 'baseline')} to {_shown(row, 'value')}"


def _moves(rows: Sequence[Row]) -> str:
    more = f"; and {len(rows) - _MOVES} more" if len(rows) > _MOVES else ""
    return f"{'; '.join(map(moved, rows[:_MOVES]))}{more}"


def _sentence(rows: Sequence[Row]) -> str:
    text = _moves(rows)
    return f"{text[:1].upper()}{text[1:]}."


def changes(before: Result, after: Result) -> list[Finding]:
    """What is different from the baseline, better and worse, and how much is alike."""
    rows = _clear(after)
    compared = [row for row in after.rows_of("comparison") if row["verdict"] != TOO_LITTLE]
    better = [row for row in rows if row["better"] is True]
    worse = [row for row in rows if row["better"] is False]
    found = []
    if better:
        found.append(Finding(Grade.GOOD, "Better", _sentence(better)))
    if worse:
        found.append(Finding(Grade.UNFAIR, "Worse", _sentence(worse)))
    if unproven := _unproven(after):
        text = f"Larger differences, but too little data to tell them from noise: {_moves(unproven)}."
        found.append(Finding(Grade.NOTE, "Unproven", text))
    same = len(compared) - len(rows)
    if same:
        noun = "measure differs" if same == 1 else "measures differ"
        against = f"from {words.name(before.label)} by no more than noise"
        found.append(Finding(Grade.NOTE, "Alike", f"{same} {noun} {against}."))
    return found
