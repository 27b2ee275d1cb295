"""The findings about one run: unfair treatment, drops, pressure, evenness, invalid input."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.fairness import WELL_SERVED
from spark_jobs.measures.result import Result, Row
from spark_jobs.metrics import AWAY_REASONS
from spark_jobs.page import groups
from spark_jobs.page.finding import Finding, Grade
from spark_jobs.page.remedies import remedy
from spark_jobs.page.trouble import Trouble, because, known_reasons, poorly_served, starvation, typical_reason

ALIKE: Final = 0.99  # from this Jain's index of the delivery ratio on, clients count as treated equally
NEARLY_ALL: Final = 0.8  # a property of this share of the clients is typical
LESS: Final = f"{WELL_SERVED * 100:.0f}{formats.NARROW_SPACE}%"
FEW: Final = 1 / 2000  # a smaller share of the clients, or of QoS 1 and 2, does not make a day unfair
_HARMLESS: Final = frozenset({"appears_once", "awkward_id", "dropped_hours"})  # findings that do not affect the figures
_PARTS: Final = {"damaged_hours": "hours"} | dict.fromkeys(
    ("truncated", "empty", "foreign", "misplaced", "unreadable", "impossible"), "files"
)
"""Faults of the input by what helps against them: an hour that is built again, a file that is replaced."""
_NAME_LENGTH: Final = 32
_A_FEW: Final = 5  # one of so many clients, or fewer, are few
_MOST: Final = 0.5  # a publisher with this share of all messages
_CONNECTED: Final = 0.8  # of the time


def findings(result: Result) -> list[Finding]:
    """The findings about a run, the most severe first."""
    found = [
        *_starved(result),
        *_poorly_served(result),
        *inverted(result),
        *_drops(result),
        *groups.findings(result),
        *_away(result),
        *_one_publisher(result),
        *_reconnects(result),
        *_pressure(result),
        *_fair(result),
        *_input(result),
    ]
    return sorted(found, key=lambda finding: -finding.grade)


def _starved(result: Result) -> list[Finding]:
    trouble = starvation(result)
    if trouble is None:
        return []
    intervals = result.facts.starved_after
    were = "clients had" if trouble.several else "client had"
    text = (
        f"{trouble.number:,} {were} deliveries waiting or offered and {'were' if trouble.several else 'was'} "
        f"sent nothing for at least {intervals} intervals in a row{trouble.since}."
    )
    if trouble.rows:
        worst = trouble.rows[0]
        text += (
            f" Longest: {named(worst)}, for {formats.seconds(worst['longest_us'] / 1e6)} from "
            f"{formats.minute(worst['longest_start_us'])} on."
        )
    return [_of_clients(result, "Starved", text, trouble)]


def _of_clients(result: Result, subject: str, text: str, trouble: Trouble) -> Finding:
    """A finding about clients that were treated unfairly."""
    grade = Grade.WATCH if is_few(result) else Grade.UNFAIR
    rows, when = trouble.rows, trouble.when
    case, what_helps = remedy(rows)
    return Finding(
        grade,
        subject,
        f"{text}{_typical(result, rows)}{_reasons_of(rows)}",
        case,
        *_first(result, rows),
        start_us=when.first_us if when else None,
        end_us=when.last_us if when else None,
        episodes=when.known if when else (),
        count=trouble.number,
        remedy=what_helps,
    )


def _first(result: Result, rows: Sequence[Row]) -> tuple[str, str]:
    """The client to look at first, and its broker; no client if the report has digests of client ids."""
    if not rows:
        return "", ""
    return "" if result.facts.hashed else rows[0]["client_id"], rows[0]["broker"]


def is_few(result: Result) -> bool:
    """Whether so few clients were starved, and treated worse than others, that nearly all were served well."""
    starved = result.maybe("starvation", length="all") or {"clients": 0}
    poor = poorly_served(result)
    least = FEW * result.facts.clients
    return bool(starved["clients"] < least and (poor is None or poor.number < least))


def named(row: Row) -> str:
    """A client and its broker."""
    return f"“{formats.name(row['client_id'], _NAME_LENGTH)}” on “{formats.name(row['broker'], _NAME_LENGTH)}”"


def _typical(result: Result, rows: Sequence[Row]) -> str:
    """What nearly all of them have in common, and not nearly all clients have: broker, listener or client id prefix."""
    if len(rows) < 3:
        return ""
    found = []
    fair = [row for row in result.rows_of("fairness") if row["qos"] == "all"]
    for column, noun in (("broker", "broker"), ("listener", "listener"), ("client_prefix", "client id prefix")):
        values = Counter(row[column] for row in rows if row[column])
        of_all = {row["name"]: row["clients"] for row in fair if row["scope"] == column}
        if values:
            value, number = max(values.items(), key=lambda item: (item[1], item[0]))
            usual = bool(of_all) and of_all.get(value, 0) >= NEARLY_ALL * sum(of_all.values())
            if number >= NEARLY_ALL * len(rows) and not usual:
                found.append(f"{noun} “{formats.name(value, _NAME_LENGTH)}”")
    return f" Nearly all of them are of {formats.listed(found)}." if found else ""


def _reasons_of(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    known = known_reasons(rows)
    if not known:
        held = "it" if len(rows) == 1 else "them"
        return f" The metrics show no reason: neither window, rate nor send path blocked {held}."
    why = typical_reason(rows)
    if not why:
        return _different(known, len(rows))
    one, several, meaning = because(why)
    means = f", {meaning}" if meaning else ""
    number = known[why]
    if len(rows) == 1:
        return f" Why: {one}{means}."
    many = f"all {len(rows)}" if number == len(rows) else f"{number} of the {len(rows)}"
    return f" Why, for {many} worst: {several}{means}."


def _different(known: Counter[str], number: int) -> str:
    """The reasons of clients of which no reason is that of most."""
    parts = []
    for why, count in sorted(known.items(), key=lambda item: (-item[1], item[0])):
        one, several, _ = because(why)
        parts.append(f"for {count} {one if count == 1 else several}")
    if rest := number - known.total():
        parts.append(f"for {rest} the metrics show none")
    return f" There is no single reason for the {number} worst: {formats.listed(parts)}."


def _poorly_served(result: Result) -> list[Finding]:
    trouble = poorly_served(result)
    if trouble is None:
        return []
    number = formats.counted(trouble.number, "client")
    text = f"{number} got less than {LESS} of what was due{trouble.since}."
    if trouble.rows:
        worst = trouble.rows[0]
        text += f" Least: {named(worst)} with {formats.percent(worst['delivery_ratio'])}."
    return [_of_clients(result, "Served less", text, trouble)]


def inverted(result: Result) -> list[Finding]:
    """QoS 0 that overtook QoS 1 and 2, or that none did; nothing if none could."""
    row = result.maybe("inversion")
    if row is None:
        return []
    if not row["inverted_qos0"]:
        if not row["blocked_rows"]:
            return []
        text = f"No QoS 0 overtook waiting QoS 1 or 2, in {row['blocked_rows']:,} intervals in which that was possible."
        return [Finding(Grade.GOOD, "Order", text)]
    text = (
        f"{formats.counted(row['inverted_qos0'], 'QoS 0 delivery')} overtook waiting QoS 1 or 2, in "
        f"{formats.counted(row['clients'], 'client')}; the gate should prevent that."
    )
    grade = Grade.NOTE if row["clients"] < FEW * result.facts.clients else Grade.WATCH
    first = _first(result, result.rows_of("inverted_sessions"))
    return [Finding(grade, "Order", text, "", *first, count=row["inverted_qos0"])]


def _drops(result: Result) -> list[Finding]:
    totals = {row["qos"]: row for row in result.rows_of("totals")}
    if "all" not in totals:
        return []
    there = {qos: row["lost"] for qos, row in totals.items()}
    away = totals["all"]["dropped"] - there["all"]
    more = f" {away:,} more were dropped for clients that were away." if away else ""
    if not there["all"]:
        if groups.losing(result):
            return []
        return [Finding(Grade.GOOD, "Dropped", f"Nothing was dropped for clients that were there.{more}")]
    reasons: Counter[str] = Counter()
    for row in result.rows_of("reasons"):
        if row["what"] == "dropped" and row["reason"] not in AWAY_REASONS:
            reasons[row["reason"]] += row["deliveries"]
    guaranteed, due = (
        sum(of[qos] for qos in ("1", "2") if qos in of)
        for of in (there, {qos: row["due"] for qos, row in totals.items()})
    )
    held = f"{guaranteed:,} of them at QoS 1 and 2" if guaranteed else "all of them at QoS 0"
    first = max(reasons, key=lambda name: (reasons[name], name)) if reasons else ""
    why = f"; the most frequent reason: {formats.reason(first)}" if first else ""
    grade = Grade.WATCH if guaranteed and guaranteed >= FEW * due else Grade.NOTE
    rows = result.rows_of("dropped_clients")
    text = f"{there['all']:,} deliveries, {held}{why}.{_few_have(result, rows)}{more}"
    return [Finding(grade, "Dropped", text, first, *_first(result, rows), count=there["all"])]


def few_have(result: Result, rows: Sequence[Row]) -> int:
    """How many clients have nearly all drops; 0 if these are not few."""
    upto = accumulate(row["share_of_lost"] or 0.0 for row in rows)
    number = next((place for place, share in enumerate(upto, 1) if share >= NEARLY_ALL), 0)
    return number if number * _A_FEW <= result.facts.clients else 0


def _few_have(result: Result, rows: Sequence[Row]) -> str:
    number = few_have(result, rows)
    if not number:
        return ""
    told = formats.percent(min(1.0, sum(row["share_of_lost"] for row in rows[:number])))
    if number == 1:
        return f" 1 client has {told} of them: {named(rows[0])}."
    return f" {number} clients have {told} of them, {named(rows[0])} most."


def loud(result: Result) -> tuple[Row, float] | None:
    """A publisher with most of the messages while others are paced, and for how many seconds they are."""
    rows, queues = result.rows_of("publishers"), result.maybe("queues")
    if len(rows) < 2 or queues is None or (rows[0]["share_of_received"] or 0) < _MOST:
        return None
    others = (queues["publish_paced_seconds"] or 0.0) - (rows[0]["publish_paced_us"] or 0) / 1e6
    return (rows[0], others) if others > 0 else None


def _one_publisher(result: Result) -> list[Finding]:
    found = loud(result)
    if found is None:
        return []
    row, others = found
    text = (
        f"{named(row)} published {formats.percent(row['share_of_received'])} of all messages "
        f"({row['received']:,}), while others were paced for {formats.seconds(others)} in total."
    )
    return [Finding(Grade.WATCH, "Publisher", text, "", *_first(result, [row]), count=row["received"])]


def takes_over(row: Row) -> bool:
    """Whether two clients fight for an id: whoever loses it comes back at once."""
    return (row["connected_share"] or 0) >= _CONNECTED


def _reconnects(result: Result) -> list[Finding]:
    """Two clients that fight for an id, or one that cannot stay connected."""
    rows = result.rows_of("reconnecting_clients")
    if not rows:
        return []
    worst, cause = rows[0], "it ends its connection, or loses it, again and again"
    if takes_over(worst):
        cause = "two clients seem to use this id, and each takes it over from the other"
    more = f" So did {formats.counted(len(rows) - 1, 'other client')}." if len(rows) > 1 else ""
    text = (
        f"{named(worst)} began {worst['begun']:,} sessions in "
        f"{formats.seconds((worst['last_us'] - worst['first_us']) / 1e6)} from {formats.minute(worst['first_us'])} on: "
        f"{cause}.{more}"
    )
    times = {"start_us": worst["first_us"], "end_us": worst["last_us"], "count": worst["begun"]}
    return [Finding(Grade.WATCH, "Reconnects", text, "", *_first(result, rows), **times)]


def _away(result: Result) -> list[Finding]:
    """What clients missed because they were away: no fault of the broker."""
    total, fair = result.maybe("totals", qos="all"), result.maybe("fairness", scope="all", qos="all")
    if total is None or fair is None or not total["missed"]:
        return []
    number, missed, dropped = fair["away"], total["missed"], total["missed_dropped"]
    one = number == 1
    text = (
        f"{formats.counted(number, 'client')} missed {formats.counted(missed, 'delivery')} while "
        f"{'it was' if one else 'they were'} not connected: {dropped:,} dropped, {missed - dropped:,} still wait."
    )
    rows = result.rows_of("away_clients")
    if rows and not one:
        text += f" Most: {named(rows[0])} with {rows[0]['missed']:,}."
    return [Finding(Grade.NOTE, "Away", text, "", *_first(result, rows), count=number)]


def _pressure(result: Result) -> list[Finding]:
    total = result.maybe("totals", qos="all")
    if total is None or total["pressure_share"] is None:
        return []
    if not total["pressure_share"]:
        return [Finding(Grade.GOOD, "Pressure", "No session was under pressure.")]
    gated = [row for row in result.rows_of("reasons") if row["what"] == "gated" and row["deliveries"]]
    text = f"Sessions were under pressure for {formats.percent(total['pressure_share'])} of their time."
    if gated:
        first = max(gated, key=lambda row: (row["deliveries"], row["reason"]))
        number = sum(row["deliveries"] for row in gated)
        text += f" The gate queued {number:,} QoS 0 deliveries, mostly: {formats.reason(first['reason'])}."
    return [Finding(Grade.NOTE, "Pressure", text)]


def _fair(result: Result) -> list[Finding]:
    row = result.maybe("fairness", scope="all", qos="all")
    if row is None or row["jain_delivery_ratio"] is None:
        return []
    jain = row["jain_delivery_ratio"]
    good = jain >= ALIKE and (row["lowest_delivery_ratio"] or 0) >= WELL_SERVED
    text = (
        f"Jain’s index of the delivery ratio over {formats.counted(row['clients'], 'client')} is "
        f"{formats.index(jain)} (1 = all equal)"
    )
    if row["gini_goodput"] is not None:
        text += f"; Gini’s coefficient of goodput {formats.index(row['gini_goodput'])} (0 = all equal)"
    return [Finding(Grade.GOOD if good else Grade.NOTE, "Evenness", f"{text}.")]


def _input(result: Result) -> list[Finding]:
    books = result.maybe("books", qos="all")
    found = []
    if books is not None and books["rows_off"]:
        text = (
            f"Counters do not reconcile in {books['rows_off']:,} of {books['rows']:,} rows: "
            "offered differs from sent + dropped + superseded + waiting."
        )
        found.append(Finding(Grade.WATCH, "Counters", text, count=books["rows_off"]))
    parts: dict[str, list[Row]] = {"hours": [], "files": [], "": []}
    for row in result.rows_of("quality"):
        if row["count"] and row["kind"] not in _HARMLESS:
            parts[_PARTS.get(row["kind"], "")].append(row)
    for part, rows in parts.items():
        if rows:
            said = formats.listed([formats.quality(row["kind"], row["count"]) for row in rows])
            text = f"Parts of it were invalid: {said}; see data quality."
            hours = rows[0]["example"] if part == "hours" else ""
            count = sum(row["count"] for row in rows)
            found.append(Finding(Grade.NOTE, "Input", text, count=count, part=part, hours=hours))
    return found
