"""A made-up result of a day of 20,000 sessions, with every table filled: for tests of the page, without Spark.

The story in it: from 14:00 on, readers of the topic group `meter` acknowledge late, their windows fill, and fourteen
of them get nothing for a while. Some names in it come from somebody with bad intentions.
"""

import math
import random
from dataclasses import replace
from typing import Any

from spark_jobs.measures.layout import LAYOUTS
from spark_jobs.measures.result import Facts, Result, table

Rows = list[dict[str, Any]]

HOUR = 3_600_000_000
WINDOW = 300_000_000
START = 1_795_219_200_000_000  # 2026-11-21 00:00 UTC
TROUBLE = START + 14 * HOUR
SCRIPT = "</title><script>alert('x')</script>\u202e\""
HOSTILE = (SCRIPT, 'a,b;"c"\nnew line\t', "=cmd|' /C calc'!A0", "x" * 65_535, "<img src=x onerror=alert(1)>", "  ")
QOS = ("all", "0", "1", "2")
_LATENCY = {"0": 350, "1": 4_200, "2": 9_000}  # microseconds, by QoS, while all is well


def sample_result(label: str = "today", *, seed: int = 7, better: bool = False) -> Result:
    """A whole result; `better` has less trouble in it."""
    dice = random.Random(seed)
    trouble = 0.15 if better else 1.0
    rows = {
        **_over_time(dice, trouble),
        **_over_sessions(dice, trouble),
        **_distributions(trouble),
        **_worst(dice, trouble),
        **_quality(),
        "comparison": _comparison() if better else [],
    }
    facts = Facts(
        label=label,
        rows=28_800_000,
        sessions=20_000,
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
    """The day before, and a day with less trouble in it."""
    return [sample_result("gate off"), sample_result("gate on", seed=8, better=True)]


def without(result: Result, *names: str) -> Result:
    """The result with these tables empty."""
    empty = {name: result.tables[name].slice(0, 0) for name in names}
    return replace(result, tables={**result.tables, **empty})


def replaced(result: Result, name: str, rows: Rows) -> Result:
    """The result with other rows in one table."""
    return replace(result, tables={**result.tables, name: table(name, result.label, rows)})


def _strength(at: int, trouble: float) -> float:
    """How bad it is at a moment, from 0 to 1."""
    hours = (at - TROUBLE) / HOUR
    return 0.0 if hours < 0 or hours > 6 else trouble * math.sin(math.pi * hours / 6)


def _over_time(dice: random.Random, trouble: float) -> dict[str, Rows]:
    timeline: Rows = []
    for start in range(START, START + 24 * HOUR, WINDOW):
        day = 1 + 0.5 * math.sin((start - START) / (24 * HOUR) * 2 * math.pi - 1.6)
        bad = _strength(start, trouble)
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
                    "pressure_share": min(1.0, bad + (0.05 if dice.random() < 0.04 else 0.0)),
                    "pressed_sessions": 0.6 * bad + (0.003 if dice.random() < 0.04 else 0.0),
                    "jain_delivery_ratio": 1 - 0.11 * bad - dice.uniform(0, 0.002),
                    "lowest_delivery_ratio": max(0.0, 0.97 - 1.2 * bad - dice.uniform(0, 0.04)),
                    "gated": int(offered * 0.1 * bad) if qos in ("all", "0") else 0,
                    "mailbox_max": int(4 + 60 * bad),
                    "mqueue_max": int(900 * bad),
                    **(_bounded("latency_p99", _LATENCY[qos] + 900_000 * bad) if qos in _LATENCY else {}),
                }
            )
    hours: Rows = []
    for hour in range(START, START + 24 * HOUR, HOUR):
        bad = _strength(hour + HOUR // 2, trouble)
        hours.append(
            {
                "hour_us": hour,
                "sessions": 20_000 - dice.randrange(90),
                "offered": 14_400_000,
                "sent": int(14_400_000 * (1 - 0.05 * bad)),
                "delivery_ratio": 1 - 0.05 * bad,
                "jain_delivery_ratio": 1 - 0.11 * bad,
                "jain_goodput": 0.52 - 0.03 * bad,
                "maxmin_goodput": 0.021 * (1 - bad),
                "gini_goodput": 0.461 + 0.01 * bad,
                **_bounded("ack_qos1_p99", 4200 + 900_000 * bad),
                **_bounded("ack_qos2_p99", 9000 + 1_800_000 * bad),
                **_bounded("wait_qos0_p99", 350 + 2_400_000 * bad),
                "starved_sessions": int(14 * bad + 0.5),
                "inverted_qos0": 0,
                "dropped": int(14_400_000 * 0.05 * bad),
                "mailbox_busy_share": 0.001 + 0.02 * bad,
            }
        )
    return {"timeline": timeline, "hours": hours}


def _bounded(name: str, value: float) -> dict[str, Any]:
    """A percentile with the bounds of its bucket."""
    bucket = int(value).bit_length()
    return {name: float(value), f"{name}_low": 1 << (bucket - 1), f"{name}_high": (1 << bucket) - 1}


def _over_sessions(dice: random.Random, trouble: float) -> dict[str, Rows]:
    totals: Rows = []
    fairness: Rows = []
    groups = [("all", "")] + [("listener", name) for name in ("tls-8883", "ws-8084", "plain-1883")]
    groups += [("topic_group", name) for name in ("meter", "sensor", "lamp", "gateway", "", SCRIPT, "(others)")]
    for qos, share in zip(QOS, (1.0, 0.82, 0.12, 0.06), strict=True):
        offered = int(345_600_000 * share)
        dropped = int(offered * 0.008 * trouble) if qos in ("all", "0") else 0
        totals.append(
            {
                "qos": qos,
                "offered": offered,
                "sent": offered - dropped,
                "dropped": dropped,
                "acknowledged": None if qos == "0" else int(offered * 0.17),
                "resent": 0 if qos == "0" else 1234,
                "waiting_growth": 0,
                "received": offered // 3,
                "delivery_ratio": 1 - dropped / offered,
                "sent_per_second": (offered - dropped) / 86_400,
                "dropped_per_second": dropped / 86_400,
                "seconds": 86_400.0,
                "pressure_seconds": 20_000.0 * trouble,
            }
        )
        for scope, name in groups:
            bad = trouble * (3.0 if name == "meter" else 1.0)
            fairness.append(
                {
                    "scope": scope,
                    "name": name,
                    "qos": qos,
                    "sessions": 20_000 if scope == "all" else dice.randrange(40, 9000),
                    "goodput_sessions": 19_990,
                    "left_out": 10,
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
            lorenz.append({"what": what, "share_sessions": i / 100, "share": (i / 100) ** power})
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


def _distributions(trouble: float) -> dict[str, Rows]:
    percentiles: Rows = []
    histograms: Rows = []
    pressed = 2 + 6 * trouble
    for metric, qos, middle, unit in (
        ("mailbox", "all", 1.0, "deliveries"),
        ("wait", "0", 5.0, "us"),
        ("wait", "1", 6.0, "us"),
        ("wait", "2", 6.0, "us"),
        ("ack", "1", 10.0, "us"),
        ("ack", "2", 11.0, "us"),
    ):
        calm = _bell(middle, 40_000_000)
        under = _bell(middle + pressed, 4_000_000)
        scopes = {"all": [a + b for a, b in zip(calm, under, strict=True)], "calm": calm, "pressed": under}
        if metric == "mailbox" or (metric, qos) in (("wait", "1"), ("wait", "2")):
            scopes = {"all": scopes["all"]}
        for scope, counts in scopes.items():
            kind = {"metric": metric, "qos": qos, "scope": scope, "unit": unit}
            total = sum(counts)
            found = {name: _quantile(counts, share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}
            row: dict[str, Any] = {**kind, "samples": total}
            for name, bucket in found.items():
                row[name] = float(1 << bucket) * 0.7 if bucket else 0.0
                row[f"{name}_low"] = (1 << (bucket - 1)) if bucket else 0
                row[f"{name}_high"] = (1 << bucket) - 1
            top = max(bucket for bucket, count in enumerate(counts) if count)
            percentiles.append({**row, "max_low": (1 << top) >> 1, "max_high": (1 << top) - 1})
            for bucket, count in enumerate(counts):
                low, high = (0, 0) if not bucket else (1 << (bucket - 1), (1 << bucket) - 1)
                histograms.append(
                    {**kind, "bucket": bucket, "low": low, "high": high, "count": count, "share": count / total}
                )
    return {"percentiles": percentiles, "histograms": histograms, **_gate(trouble)}


def _bell(middle: float, total: int) -> list[int]:
    return [int(total * math.exp(-((bucket - middle) ** 2) / 5) / 4) for bucket in range(32)]


def _quantile(counts: list[int], share: float) -> int:
    left = share * sum(counts)
    for bucket, count in enumerate(counts):
        left -= count
        if left <= 0:
            return bucket
    return 31


def _gate(trouble: float) -> dict[str, Rows]:
    gate: Rows = []
    lines: Rows = []
    for qos in ("0", "1", "2"):
        for scope, factor in (("calm", 1.0), ("pressed", 1 + 150.0 * trouble)):
            offered = 260_000_000 if scope == "calm" else 18_000_000
            dropped = 0 if scope == "calm" or qos != "0" else int(2_300_000 * trouble)
            row = {
                "qos": qos,
                "scope": scope,
                "offered": offered,
                "sent": offered - dropped,
                "dropped": dropped,
                "gated": 0 if scope == "calm" or qos != "0" else 9_000_000,
                "session_seconds": 1e8 if scope == "calm" else 7e6,
                "delivery_ratio": 1 - dropped / offered,
                "sent_per_second": 2.6,
            }
            delays = {"delay_p50": 90 * factor, "delay_p99": 350 * factor**1.4}
            acks = {"ack_p50": 900 * factor**0.4, "ack_p95": 2400 * factor**0.5, "ack_p99": 5200 * factor**0.7}
            for name, value in (delays if qos == "0" else acks).items():
                row |= _bounded(name, value)
            gate.append(row)
        lines.append(
            {
                "qos": qos,
                "samples": 44_000_000,
                **_bounded("wait_p50", 70),
                **_bounded("wait_p95", 1500 * (1 + trouble)),
                **_bounded("wait_p99", 90_000 * (1 + 9 * trouble)),
                "sessions": 20_000,
                "sessions_window_full": int(61 * trouble),
                "window_full_share": 0.0061 * trouble,
                "window_bytes_full_share": 0.0002,
                "rate_limited_share": 0.0,
                "congested_share": 0.0031 * trouble,
            }
        )
    return {"gate": gate, "head_of_line": lines}


def _sessions(dice: random.Random) -> Rows:
    names = [f"meter/{dice.randrange(16**6):06x}-{dice.randrange(900)}" for _ in range(44)]
    names[2:8] = HOSTILE
    return [
        {
            "broker": f"broker-{i % 4}.example.net",
            "client_id": name,
            "session_started_us": START - HOUR * i,
            "listener": "tls-8883" if i % 5 else "ws-8084",
            "topic_group": "meter" if name.startswith("meter") else "",
        }
        for i, name in enumerate(names)
    ]


def _worst(dice: random.Random, trouble: float) -> dict[str, Rows]:
    sessions = _sessions(dice)
    starved_runs = 14 if trouble == 1 else 0
    worst: Rows = []
    per_hour: Rows = []
    for i, session in enumerate(sessions[:20]):
        ratio = min(0.98, 0.12 + 0.03 * i + (1 - trouble) * 0.8)
        offered = dice.randrange(9_000, 90_000)
        why = ("window_full", "window_full", "window_full", "congested", "rate_limited")[i % 5]
        if i % 10 == 9:
            why = "queue_full_paced"
        worst.append(
            {
                **session,
                "offered": offered,
                "sent": int(offered * ratio),
                "dropped": int(offered * (1 - ratio)),
                "delivery_ratio": ratio,
                "goodput": offered * ratio / 86_400,
                "gated": int(offered * 0.4),
                **_bounded("wait_p99", 45_000_000 * (1 - ratio) + 2),
                "window_full_share": 0.31 if why == "window_full" else 0.0,
                "window_bytes_full_share": 0.0,
                "rate_limited_share": 0.4 if why == "rate_limited" else 0.0,
                "congested_share": 0.22 if why == "congested" else 0.01,
                "paced_for_us": 60_000_000 * (20 - i) if why == "congested" else 0,
                "mqueue_max": 1000,
                "mailbox_max": dice.randrange(90),
                "starved_rows": 40 if i < starved_runs else 0,
                "why": why,
            }
        )
        if i < 12:
            per_hour += _hours_of(session, i + 1, offered, ratio, starved=i < starved_runs)
    starved: Rows = []
    for i, session in enumerate(sessions[:starved_runs]):
        begun = TROUBLE + 600_000_000 + i * 120_000_000
        length = 42 - 2 * i
        starved.append(
            {
                **session,
                "runs": 1 + i % 3,
                "longest_intervals": length,
                "longest_us": length * 60_000_000,
                "starved_us": (length + 3) * 60_000_000,
                "first_us": begun,
                "last_us": begun + (length + 20) * 60_000_000,
                "offered": 400 + i,
                "waiting": 90,
                "offered_in_range": 30_000,
                "sent_in_range": 4_000,
                "window_full_share": 0.3,
                "window_bytes_full_share": 0.0,
                "rate_limited_share": 0.0,
                "congested_share": 0.02,
                "why": "window_full" if i % 7 else "congested",
            }
        )
    return {
        "worst_sessions": worst,
        "worst_hours": per_hour,
        "starved_worst": starved,
        "starvation": _starvation(starved_runs),
        **_rankings(dice, sessions, trouble),
    }


def _hours_of(session: dict[str, Any], rank: int, offered: int, ratio: float, *, starved: bool) -> Rows:
    found: Rows = []
    for hour in range(START, START + 24 * HOUR, HOUR):
        bad = _strength(hour + HOUR // 2, 1.0)
        share = max(0.0, 1 - 1.6 * bad * (1 - ratio))
        found.append(
            {
                "broker": session["broker"],
                "client_id": session["client_id"],
                "session_started_us": session["session_started_us"],
                "rank": rank,
                "hour_us": hour,
                "offered": offered // 24,
                "sent": int(offered // 24 * share),
                "dropped": int(offered // 24 * (1 - share)),
                "delivery_ratio": share,
                **_bounded("ack_p99", 5000 + 2_000_000 * bad),
                **_bounded("wait_p99", 500 + 9_000_000 * bad),
                "starved_rows": int(30 * bad) if starved else 0,
                "window_full_share": 0.5 * bad,
            }
        )
    return found


def _starvation(sessions: int) -> Rows:
    found: Rows = []
    lengths = (("all", 3, None), ("1", 1, 1), ("2", 2, 2), ("3-5", 3, 5), ("6-10", 6, 10), ("11-30", 11, 30))
    shares = (1.0, 90.0, 8.0, 0.1, 0.2, 0.4, 0.3)
    for (length, least, most), share in zip((*lengths, ("31+", 31, None)), shares, strict=True):
        number = int(sessions * share)
        found.append(
            {
                "length": length,
                "least_intervals": least,
                "most_intervals": most,
                "runs": number * 2,
                "sessions": number,
                "longest_intervals": 42 if sessions else 0,
                "seconds": number * 1260.0,
                "offered": number * 400,
            }
        )
    return found


def _publishers(dice: random.Random, sessions: Rows) -> Rows:
    return [
        {
            **session,
            "received": 9_000_000 // (i + 1),
            "received_qos0": 8_000_000 // (i + 1),
            "received_qos1": 700_000 // (i + 1),
            "received_qos2": 300_000 // (i + 1),
            "received_bytes": 4_500_000_000 // (i + 1),
            "share_of_received": 0.078 / (i + 1),
            "share_of_bytes": 0.09 / (i + 1),
            "received_per_second": 104.0 / (i + 1),
            "publish_refused": dice.randrange(3),
            "publish_parked": dice.randrange(900),
            "publish_paged": 0,
            "publish_discarded": 0,
            "publish_parked_us": 5_000_000,
            "publish_throttled_us": 0,
            "publish_paced_us": 9_000_000 // (i + 1),
            "reading_paused_us": 2_000_000,
        }
        for i, session in enumerate(sessions)
    ]


def _paced_for(sessions: Rows) -> Rows:
    return [
        {
            **session,
            "paced_for_us": 4_000_000_000 >> i,
            "paced_for_share": 0.046 / 2**i,
            "offered": 40_000,
            "sent": 30_000,
            "dropped": 10_000,
            "delivery_ratio": 0.75,
            "window_full_share": 0.3,
            "congested_share": 0.02,
            "mqueue_max": 1000,
            "why": "congested" if i % 2 else "queue_full_paced",
        }
        for i, session in enumerate(sessions)
    ]


def _rankings(dice: random.Random, sessions: Rows, trouble: float) -> dict[str, Rows]:
    full = [
        {
            **session,
            "duration_us": 24 * HOUR,
            "window_full_share": 0.4 - 0.015 * i,
            "window_bytes_full_share": 0.0,
            "rate_limited_share": 0.0,
            "congested_share": 0.02,
            "window_limit": 32,
            "mqueue_max": 1000,
        }
        for i, session in enumerate(sessions[:20])
    ]
    stalled = [
        {**session, "stalled_window": 9 - i, "slow_consumer": i, "window_full_share": 0.3, "mqueue_max": 1000}
        for i, session in enumerate(sessions[:8])
    ]
    inverted = [{**sessions[40], "inverted_qos0": 12, "blocked_rows": 80, "sent_qos0": 9000}] if trouble == 1 else []
    return {
        "head_of_line_sessions": full,
        "stalled_sessions": stalled,
        "publishers": _publishers(dice, sessions[20:40]),
        "paced_for_sessions": _paced_for(sessions[: 20 if trouble == 1 else 3]),
        "inverted_sessions": inverted,
        "stalled": [
            {"kind": "stalled_window", "reports": 44, "sessions": 8},
            {"kind": "slow_consumer", "reports": 28, "sessions": 7},
        ],
        "inversion": [
            {
                "inverted_qos0": 12 if inverted else 0,
                "share_of_sent_qos0": 4e-8 if inverted else 0.0,
                "blocked_rows": 8_000,
                "sessions": len(inverted),
            }
        ],
        "queues": [
            {
                "mailbox_max": 64,
                "mqueue_max": 1000,
                "mqueue_bytes_max": 512_000,
                "window_max": 32,
                "mailbox_samples": 160_000_000,
                "mailbox_busy_samples": 320_000,
                "mailbox_busy_share": 0.002,
                "window_full_seconds": 10_540_000.0,
                "window_bytes_full_seconds": 345_000.0,
                "rate_limited_seconds": 0.0,
                "congested_seconds": 5_356_000.0,
                "paced_for_seconds": 7_950.0 * trouble,
                "reading_paused_seconds": 12.0,
                "publish_throttled_seconds": 0.0,
                "publish_paced_seconds": 8_400.0 * trouble,
                "publish_parked_seconds": 44.0,
            }
        ],
    }


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
            "words": "came after their hour was made",
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
        ("starved_sessions", "Starved sessions", "sessions", 14.0, 0.0, True, 0.0021),
        ("wait_qos0_p99", "QoS 0 sent, 99th percentile", "us", 350.0, 2_400.0, False, 0.018),
        ("delivery_ratio", "Sent of what was offered", "share", 0.992, 0.9988, True, 0.21),
        ("gini_goodput", "Gini’s coefficient of goodput", "index", 0.461, 0.459, True, 0.74),
        ("inverted_qos0", "QoS 0 sent past waiting QoS 1 and 2", "deliveries", None, None, None, None),
    )
    found: Rows = []
    for measure, name, unit, baseline, value, better, p in lines:
        verdict = "too little data" if p is None else "larger than noise" if p < 0.05 else "noise"
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
