"""Tables of the sample result about waiting: percentiles, histograms, the gate, head-of-line blocking."""

import math
from typing import Any

from tests.support.spark.sample_story import QOS, Rows, bounded


def distributions(trouble: float) -> dict[str, Rows]:
    """The tables `percentiles`, `histograms`, `gate` and `head_of_line`."""
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
                row |= bounded(name, value)
            gate.append(row)
    for qos in QOS:
        lines.append(
            {
                "qos": qos,
                "samples": 132_000_000 if qos == "all" else 44_000_000,
                **bounded("wait_p50", 70),
                **bounded("wait_p95", 1500 * (1 + trouble)),
                **bounded("wait_p99", 90_000 * (1 + 9 * trouble)),
            }
        )
    lines[0] |= {  # of the sessions, not of a QoS
        "clients": 20_000,
        "clients_window_full": int(61 * trouble),
        "window_full_share": 0.0061 * trouble,
        "window_bytes_full_share": 0.0002,
        "rate_limited_share": 0.0,
        "congested_share": 0.0031 * trouble,
    }
    return {"gate": gate, "head_of_line": lines}
