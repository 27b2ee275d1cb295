"""What a report says in words: a headline and a few sentences, for one run and for two side by side."""

from typing import Final

from spark_jobs import words
from spark_jobs.run import Row, Run

ALIKE: Final = 0.99  # Jain's index of the delivery ratio from which on sessions count as treated alike
NEARLY_ALIKE: Final = 0.9
WELL_SERVED: Final = 0.95  # delivery ratio below which a session counts as having got less
SAME_RATE: Final = 0.05  # rates and shares of two single runs that differ by less are called about the same


def headline(run: Run) -> str:
    """One sentence: were the sessions treated alike, and how much got through."""
    total = run.one("totals", qos="all")
    if not total["offered"]:
        return "Nothing was offered to any session."
    fair = run.one("fairness", qos="all")
    jain = fair["jain_delivery_ratio"]
    got = f"{words.percent(_capped(total['delivery_ratio']))} of what was offered was sent"
    if jain is None:
        return "Nothing that was offered was sent."
    if jain >= ALIKE and fair["lowest_delivery_ratio"] >= WELL_SERVED:
        return f"Sessions were treated alike: {got}."
    if jain >= NEARLY_ALIKE:
        return f"Most sessions were treated alike, some got less; {got}."
    return f"Sessions were treated unequally: {got}."


def _capped(ratio: float | None) -> float | None:
    """Sent over offered can pass 1 when a backlog from before the range was sent in it."""
    return None if ratio is None else min(1.0, ratio)


def sentences(run: Run) -> list[str]:
    """The findings of one run, the most important first."""
    found = [_fairness(run), _drops(run), _pressure(run)]
    for qos in ("1", "2"):
        row = percentiles(run, "ack", qos)
        if row is not None:
            found.append(
                f"QoS {qos} deliveries were acknowledged within {words.micros(row['p50'])} in the median and "
                f"{words.micros(row['p99'])} at the 99th percentile ({_bounds(row, 'p99')})."
            )
    found.append(_books(run))
    skipped = len(run.survey.skipped)
    if skipped:
        found.append(f"{words.counted(skipped, 'file')} could not be used; data quality says which and why.")
    return [sentence for sentence in found if sentence]


def percentiles(run: Run, metric: str, qos: str) -> Row | None:
    """The percentiles of a distribution over the whole range; None if nothing was recorded."""
    rows = [
        r for r in run.rows_of("percentiles") if r["metric"] == metric and r["qos"] == qos and r["samples"]
    ]
    return rows[0] if rows else None


def _bounds(row: Row, name: str) -> str:
    high, low = row[f"{name}_high"], row[f"{name}_low"]
    if high is None:
        return f"at least {words.quantity(low, row['unit'])}"
    return f"at most {words.quantity(high, row['unit'])}"


def _fairness(run: Run) -> str:
    row = run.one("fairness", qos="all")
    if row["jain_delivery_ratio"] is None:
        return ""
    worst = words.percent(row["lowest_delivery_ratio"])
    return (
        f"Jain’s index of the delivery ratio over {row['sessions']:,} sessions is "
        f"{words.index(row['jain_delivery_ratio'])} (1 is all alike); "
        f"the worst session was sent {worst} of its deliveries."
    )


def _drops(run: Run) -> str:
    totals = {row["qos"]: row for row in run.rows_of("totals")}
    dropped = totals["all"]["dropped"]
    if not dropped:
        return "Nothing was dropped."
    reasons: dict[str, int] = {}
    for row in run.rows_of("reasons"):
        if row["what"] == "dropped":
            reasons[row["reason"]] = reasons.get(row["reason"], 0) + row["deliveries"]
    first = max(reasons, key=lambda name: reasons[name])
    guaranteed = totals["1"]["dropped"] + totals["2"]["dropped"]
    held = f"{guaranteed:,} of them at QoS 1 and 2" if guaranteed else "all of them at QoS 0"
    return f"{dropped:,} deliveries were dropped, {held}; the most frequent reason: {words.reason(first)}."


def _pressure(run: Run) -> str:
    total = run.one("totals", qos="0")
    if not total["pressure_seconds"]:
        return "No session was ever under pressure."
    share = words.percent(min(1.0, total["pressure_seconds"] / total["seconds"]))
    gated = [row for row in run.rows_of("reasons") if row["what"] == "gated"]
    number = sum(row["deliveries"] for row in gated)
    if not number:
        return f"Some session was under pressure {share} of the time; no QoS 0 was gated."
    first = max(gated, key=lambda row: row["deliveries"])["reason"]
    part = words.percent(min(1.0, number / total["offered"])) if total["offered"] else words.count(number)
    return (
        f"Some session was under pressure {share} of the time. The gate queued {part} of QoS 0, "
        f"most often because of: {words.reason(first)}."
    )


def _books(run: Run) -> str:
    row = run.one("books", qos="all")
    if row["rows_off"]:
        return (
            f"The books do not balance in {row['rows_off']:,} of {row['rows']:,} rows: "
            "offered is not sent + dropped + waiting there."
        )
    return f"The books balance in all {row['rows']:,} rows: offered = sent + dropped + waiting."


def compared_headline(before: Run, after: Run) -> str:
    """One sentence on two runs: what got better or worse for what waits, and what that did to QoS 0."""
    gain = _first_difference(before, after)
    a, b = (_capped(run.one("totals", qos="0")["delivery_ratio"]) for run in (before, after))
    if a is None or b is None or abs(b - a) < SAME_RATE:
        cost, dearer = "", False
    else:
        dearer = b < a
        cost = (
            f"{'less' if dearer else 'more'} QoS 0 was sent ({words.percent(b)} against {words.percent(a)})"
        )
    if gain is None:
        same = f"{after.label} and {before.label} hardly differ in mailbox length and acknowledgement latency"
        return f"{same}, but with {after.label} {cost}." if cost else f"{same}."
    better, told = gain
    joint = f", {'but' if better == dearer else 'and'} {cost}" if cost else ""
    return f"With {after.label}, {told}{joint}."


def _first_difference(before: Run, after: Run) -> tuple[bool, str] | None:
    """The first of a few percentiles that differs clearly: whether it got better, and in words."""
    for metric, qos, name, better, worse in (
        ("mailbox", "all", "mailboxes were", "shorter", "longer"),
        ("ack", "1", "QoS 1 was acknowledged", "sooner", "later"),
        ("ack", "2", "QoS 2 was acknowledged", "sooner", "later"),
    ):
        a, b = percentiles(before, metric, qos), percentiles(after, metric, qos)
        if a is not None and b is not None and (how := trend(a, b, "p99")) != "same":
            values = (
                f"p99 {words.quantity(b['p99'], b['unit'])} against {words.quantity(a['p99'], a['unit'])}"
            )
            return how == "lower", f"{name} {better if how == 'lower' else worse} ({values})"
    return None


def trend(before: Row, after: Row, name: str) -> str:
    """lower, higher or same; two percentiles are the same if the same bounds enclose them."""
    if after[f"{name}_low"] > before[f"{name}_low"]:
        return "higher"
    return "lower" if after[f"{name}_low"] < before[f"{name}_low"] else "same"


def compared_sentences(before: Run, after: Run) -> list[str]:
    """What differs between two runs, in words."""
    runs = (before, after)
    longest, busy = zip(*[_mailbox(run) for run in runs], strict=True)
    found = [
        (
            f"The longest mailbox held {longest[1]} deliveries with {after.label}, "
            f"{longest[0]} with {before.label}; {busy[1]} and {busy[0]} of the samples counted as busy."
        )
    ]
    for qos in ("1", "2"):
        a, b = percentiles(before, "ack", qos), percentiles(after, "ack", qos)
        if a is not None and b is not None:
            how = {"lower": "sooner", "higher": "later", "same": "about as soon"}[trend(a, b, "p99")]
            found.append(
                f"QoS {qos} was acknowledged {how}: p99 {words.micros(b['p99'])} with {after.label}, "
                f"{words.micros(a['p99'])} with {before.label}."
            )
    for scope, place in (("pressure_windows", "under pressure"), ("other_windows", "outside of pressure")):
        rates = [run.one("pressure", scope=scope)["sent_qos0_per_second"] for run in runs]
        if None not in rates:
            how = _rate_trend(rates[0], rates[1])
            found.append(
                f"QoS 0 throughput {place} was {how}: {words.rate(rates[1])} with {after.label}, "
                f"{words.rate(rates[0])} with {before.label}."
            )
    return [*found, *_compared_totals(before, after)]


def _mailbox(run: Run) -> tuple[str, str]:
    row = run.one("queues")
    return words.count(row["mailbox_max"]), words.percent(row["mailbox_busy_share"])


def _compared_totals(before: Run, after: Run) -> list[str]:
    """Delivery ratio, fairness, books and files of two runs."""
    runs = (before, after)
    ratios = [words.percent(_capped(run.one("totals", qos="all")["delivery_ratio"])) for run in runs]
    jains = [words.index(run.one("fairness", qos="all")["jain_delivery_ratio"]) for run in runs]
    found = [
        (
            f"Of all that was offered, {ratios[1]} was sent with {after.label} and {ratios[0]} with "
            f"{before.label}; Jain’s index of the delivery ratio is {jains[1]} and {jains[0]}."
        )
    ]
    off = [run for run in runs if run.one("books", qos="all")["rows_off"]]
    found += [f"{run.label}: {_books(run)}" for run in off]
    if not off:
        found.append("The books balance in every row of both: offered = sent + dropped + waiting.")
    skipped = sum(len(run.survey.skipped) for run in runs)
    if skipped:
        found.append(f"{words.counted(skipped, 'file')} could not be used; data quality says which and why.")
    return found


def _rate_trend(before: float, after: float) -> str:
    if before == after or (before and abs(after / before - 1) < SAME_RATE):
        return "about the same"
    return "higher" if after > before else "lower"
