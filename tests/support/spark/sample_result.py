"""A sample result of a day of 20,000 clients, with every table filled: for tests of the page, without Spark."""

import math
import random
from dataclasses import replace
from typing import Any

from spark_jobs.comparison.compare import NOT_SIGNIFICANT, SIGNIFICANT, TOO_LITTLE
from spark_jobs.measures.layout import LAYOUTS
from spark_jobs.measures.result import Facts, Result, table
from tests.support.spark.sample_distributions import distributions
from tests.support.spark.sample_sessions import worst
from tests.support.spark.sample_story import HOUR, QOS, SCRIPT, START, WINDOW, Rows, bounded, strength

_LATENCY = {
    "0": 350,
    "1": 4_200,
    "2": 9_000,
}  # microseconds, by QoS, without trouble


def sample_result(label: str = "today", *, seed: int = 7, better: bool = False) -> Result:
    """A whole result; `better` has less trouble."""
    dice = random.Random(seed)
    trouble = 0.15 if better else 1.0
    rows = {
        **_over_time(dice, trouble),
        **_over_sessions(dice, trouble),
        **distributions(trouble),
        **worst(dice, trouble),
        **_quality(),
        "comparison": _comparison() if better else [],
    }
    facts = Facts(
        label=label,
        rows=28_800_000,
        clients=20_000,
        brokers=tuple(f"broker-{i}.example.net" for i in range(4)),
        hours=24,
        first_us=START,
        last_us=START + 24 * HOUR,
        slot_us=60_000_000,
        window_us=WINDOW,
        interval_us=60_000_000,
        starved_after=3,
        watermarks={f"broker-{i}.example.net": START + 24 * HOUR for i in range(4)},
        files={"read": 120, "truncated": 1, "empty": 2},
    )
    return Result(facts, {name: table(name, label, rows.get(name, [])) for name in LAYOUTS})


def sample_comparison() -> list[Result]:
    """The day before, and a day with less trouble."""
    return [sample_result("gate off"), sample_result("gate on", seed=8, better=True)]


def without(result: Result, *names: str) -> Result:
    """The result with these tables empty."""
    empty = {name: result.tables[name].slice(0, 0) for name in names}
    return replace(result, tables={**result.tables, **empty})


def replaced(result: Result, name: str, rows: Rows) -> Result:
    """The result with other rows in one table."""
    return replace(result, tables={**result.tables, name: table(name, result.label, rows)})


def _over_time(dice: random.Random, trouble: float) -> dict[str, Rows]:
    timeline: Rows = []
    for start in range(START, START + 24 * HOUR, WINDOW):
        day = 1 + 0.5 * math.sin((start - START) / (24 * HOUR) * 2 * math.pi - 1.6)
        bad = strength(start, trouble)
        for qos, share in zip(QOS, (1.0, 0.82, 0.12, 0.06), strict=True):
            offered = int(1_200_000 * day * share * dice.uniform(0.95, 1.05))
            dropped = int(offered * 0.06 * bad) if qos in ("all", "0") else 0
            sent = offered - dropped
            timeline.append(
                {
                    "qos": qos,
                    "start_us": start,
                    "window_us": WINDOW,
                    "offered": offered,
                    "sent": sent,
                    "dropped": dropped,
                    "sent_per_second": sent / 300,
                    "dropped_per_second": dropped / 300,
                    "pressed_sessions": 0.6 * bad + (0.003 if dice.random() < 0.04 else 0.0),
                    "jain_delivery_ratio": 1 - 0.11 * bad - dice.uniform(0, 0.002),
                    "lowest_delivery_ratio": max(0.0, 0.97 - 1.2 * bad - dice.uniform(0, 0.04)),
                    "gated": int(offered * 0.1 * bad) if qos in ("all", "0") else 0,
                    "mailbox_max": int(4 + 60 * bad),
                    "mqueue_max": int(900 * bad),
                    **(bounded("latency_p99", _LATENCY[qos] + 900_000 * bad) if qos in _LATENCY else {}),
                }
            )
    hours: Rows = []
    for hour in range(START, START + 24 * HOUR, HOUR):
        bad = strength(hour + HOUR // 2, trouble)
        hours.append(
            {
                "hour_us": hour,
                "clients": 20_000 - dice.randrange(90),
                "offered": 14_400_000,
                "sent": int(14_400_000 * (1 - 0.05 * bad)),
                "delivery_ratio": 1 - 0.05 * bad,
                "jain_delivery_ratio": 1 - 0.11 * bad,
                "jain_goodput": 0.52 - 0.03 * bad,
                "maxmin_goodput": 0.021 * (1 - bad),
                "gini_goodput": 0.461 + 0.01 * bad,
                **bounded("ack_qos1_p99", 4200 + 900_000 * bad),
                **bounded("ack_qos2_p99", 9000 + 1_800_000 * bad),
                **bounded("wait_qos0_p99", 350 + 2_400_000 * bad),
                "starved_sessions": int(14 * bad + 0.5),
                "inverted_qos0": 0,
                "dropped": int(14_400_000 * 0.05 * bad),
                "lost": int(14_400_000 * 0.05 * bad),
                "pressure_share": 0.6 * bad,
                "seconds": 3600.0,
                "mailbox_busy_share": 0.001 + 0.02 * bad,
            }
        )
    return {"timeline": timeline, "hours": hours}


def _over_sessions(dice: random.Random, trouble: float) -> dict[str, Rows]:
    totals: Rows = []
    fairness: Rows = []
    groups = [("all", "")] + [("listener", name) for name in ("tls-8883", "ws-8084", "plain-1883")]
    groups += [("client_prefix", name) for name in ("meter", "sensor", "lamp", "gateway", "", SCRIPT, "(others)")]
    for qos, share in zip(QOS, (1.0, 0.82, 0.12, 0.06), strict=True):
        offered = int(345_600_000 * share)
        dropped = int(offered * 0.008 * trouble) if qos in ("all", "0") else 0
        totals.append(
            {
                "qos": qos,
                "offered": offered,
                "due": offered,
                "sent": offered - dropped,
                "dropped": dropped,
                "lost": dropped,
                "missed": 0,
                "missed_dropped": 0,
                "acknowledged": None if qos == "0" else int(offered * 0.17),
                "resent": 0 if qos == "0" else 1234,
                "waiting_growth": 0,
                "received": offered // 3,
                "delivery_ratio": 1 - dropped / offered,
                "sent_per_second": (offered - dropped) / 86_400,
                "dropped_per_second": dropped / 86_400,
                "seconds": 86_400.0,
                "pressure_share": 0.0654 * trouble,
            }
        )
        for scope, name in groups:
            bad = trouble * (3.0 if name == "meter" else 1.0)
            fairness.append(
                {
                    "scope": scope,
                    "name": name,
                    "qos": qos,
                    "clients": 20_000 if scope == "all" else dice.randrange(40, 9000),
                    "goodput_clients": 19_990,
                    "left_out": 10,
                    "away": 0,
                    "poorly_served": (31 if trouble == 1 else 5) if scope == "all" else 3,
                    "jain_delivery_ratio": 1 - 0.031 * bad,
                    "jain_goodput": 0.523,
                    "maxmin_goodput": 0.0041,
                    "lowest_delivery_ratio": max(0.0, 0.9 - 0.78 * trouble),
                    "gini_goodput": 0.461,
                    "gini_delivery_ratio": 0.004 * bad,
                    "mean_goodput": 0.2,
                    "lowest_goodput": 0.001,
                }
            )
    lorenz: Rows = []
    for what, power in (("goodput", 2.7 + trouble), ("delivery_ratio", 1 + 0.03 * trouble), ("offered", 2.7)):
        for i in range(101):
            lorenz.append({"what": what, "share_clients": i / 100, "share": (i / 100) ** power})
    return {"totals": totals, "fairness": fairness, "lorenz": lorenz, "reasons": _reasons(trouble)}


def _reasons(trouble: float) -> Rows:
    found: Rows = []
    for reason, share in (("congested", 0.02), ("window_full", 0.05), ("backlog", 0.01), ("rate", 0.0)):
        found.append(_reason("gated", "0", reason, share * trouble))
    for reason, share in (("queue_full", 0.0071), ("expired", 0.0009), ("too_large", 0.00000004)):
        found.append(_reason("dropped", "0", reason, share * trouble))
    found.append(_reason("refused", "all", "publish_refused", 0.00001))
    found.append(_reason("parked", "all", "publish_parked", 0.0004))
    return found


def _reason(what: str, qos: str, reason: str, share: float) -> dict[str, Any]:
    deliveries = int(283_000_000 * share)
    return {"what": what, "qos": qos, "reason": reason, "deliveries": deliveries, "share_of_offered": share}


def _quality() -> dict[str, Rows]:
    books = [
        {
            "qos": qos,
            "rows": 28_800_000,
            "rows_off": 0,
            "offered": 345_600_000,
            "sent": 342_000_000,
            "dropped": 3_600_000,
            "waiting_growth": 0,
            "difference": 0,
            "rows_off_by_reason": 0 if qos == "all" else None,
        }
        for qos in QOS
    ]
    quality = [
        {
            "kind": "truncated",
            "count": 1,
            "example": "date=2026-11-21/hour=03/a.parquet",
            "words": "cut off: no footer",
        },
        {"kind": "empty", "count": 2, "example": f"{SCRIPT}.parquet", "words": f"a file of 0 bytes: {SCRIPT}"},
        {
            "kind": "duplicate_rows",
            "count": 60,
            "example": "broker-1",
            "words": "the same rows in two files; one was kept",
        },
        {"kind": "clock", "count": 1, "example": "broker-3", "words": "its clock is 1 h ahead of its files"},
        {
            "kind": "late",
            "count": 4,
            "example": "date=2026-11-21/hour=02/l.parquet",
            "words": "arrived after their hour was built",
        },
    ]
    files = [
        {
            "file": f"date=2026-11-21/hour={i % 24:02}/part-{i}.parquet",
            "status": "read",
            "why": "",
            "rows": 9,
            "size": 9,
        }
        for i in range(120)
    ]
    files += [
        {"file": f"bad-{i}.parquet", "status": "skipped", "why": SCRIPT, "rows": None, "size": 0} for i in range(3)
    ]
    return {"books": books, "quality": quality, "files": files}


def _comparison() -> Rows:
    lines = (
        ("jain_delivery_ratio", "Jain’s index of the delivery ratio", "index", 0.969, 0.9953, True, 0.0004),
        ("ack_qos1_p99", "QoS 1 acknowledged, 99th percentile", "us", 905_000.0, 141_000.0, True, 0.00001),
        ("ack_qos2_p99", "QoS 2 acknowledged, 99th percentile", "us", 1_800_000.0, 277_000.0, True, 0.00001),
        ("starved_sessions", "Starved clients", "clients", 14.0, 0.0, True, 0.0021),
        ("wait_qos0_p99", "QoS 0 sent, 99th percentile", "us", 350.0, 2_400.0, False, 0.018),
        ("delivery_ratio", "Sent of offered", "share", 0.992, 0.9988, True, 0.21),
        ("gini_goodput", "Gini’s coefficient of goodput", "index", 0.461, 0.459, True, 0.74),
        ("inverted_qos0", "QoS 0 that overtook waiting QoS 1 and 2", "deliveries", None, None, None, None),
    )
    found: Rows = []
    for measure, name, unit, baseline, value, better, p in lines:
        verdict = TOO_LITTLE if p is None else SIGNIFICANT if p < 0.05 else NOT_SIGNIFICANT
        difference = None if baseline is None or value is None else value - baseline
        found.append(
            {
                "measure": measure,
                "name": name,
                "unit": unit,
                "baseline": baseline,
                "value": value,
                "difference": difference,
                "ratio": value / baseline if baseline and value is not None else None,
                "better": better,
                "test": "Mann-Whitney U, two-sided, hourly values",
                "n_baseline": 24,
                "n": 24,
                "p_value": p,
                "p_adjusted": p,
                "verdict": verdict,
                "words": f"{name}: {verdict}",
            }
        )
    return found
