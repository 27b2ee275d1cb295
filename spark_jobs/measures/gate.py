"""Table `gate`: the cost of the gate for QoS 0, and its gain for QoS 1 and 2.

For each QoS, the intervals in which the session was under pressure (where the gate acts) and the calm ones. Cost: QoS 0
gated and dropped under pressure, and its delay (`delay`, routed to first sent). Gain: the acknowledgement latency of
QoS 1 and 2 (`ack`) under pressure and in calm intervals; best compared with a baseline without the gate.
"""

from collections.abc import Mapping
from typing import Final

from spark_jobs.measures.histogram import Histogram, bounded, without
from spark_jobs.measures.numbers import per_second, ratio, seconds
from spark_jobs.measures.percentiles import CALM, PRESSED
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import HourSums
from spark_jobs.metrics import GATE_REASONS, QOS

_DELAYS: Final = {"delay_p50": 500, "delay_p99": 990}
_ACKS: Final = {"ack_p50": 500, "ack_p95": 950, "ack_p99": 990}


def gate(sums: HourSums, missed: Mapping[str, int]) -> list[Row]:
    """The rows of the table: each QoS under pressure and calm; null if a QoS does not have the value.

    Args:
        sums: over the whole range.
        missed: QoS -> what clients missed because they were away: no session is under pressure then.
    """
    return [_row(sums, qos, scope, missed[str(qos)]) for qos in QOS for scope in (PRESSED, CALM)]


def _row(sums: HourSums, qos: int, scope: str, missed: int) -> Row:
    time_us = sums["pressed_us"] if scope == PRESSED else sums["duration_us"] - sums["pressed_us"]
    offered, sent, dropped = (
        _count(sums, f"{kind}_qos{qos}", scope) for kind in ("offered", "sent", "dropped")
    )
    row: Row = {
        "qos": str(qos),
        "scope": scope,
        "offered": offered,
        "sent": sent,
        "dropped": dropped,
        "session_seconds": seconds(time_us),
        "delivery_ratio": ratio(sent, offered - (missed if scope == CALM else 0)),
        "sent_per_second": per_second(sent, time_us),
    }
    if qos == 0:
        # A gated delivery makes an interval one under pressure, so calm ones have none.
        row["gated"] = sum(sums[f"gated_{reason}"] for reason in GATE_REASONS) if scope == PRESSED else 0
    names, histogram = (_DELAYS, "wait_qos0_buckets") if qos == 0 else (_ACKS, f"ack_qos{qos}_buckets")
    for name, per_mille in names.items():
        row |= bounded(name, _histogram(sums, histogram, scope), per_mille)
    return row


def _count(sums: HourSums, name: str, scope: str) -> int:
    pressed = sums[f"pressed_{name}"]
    return pressed if scope == PRESSED else sums[name] - pressed


def _histogram(sums: HourSums, name: str, scope: str) -> Histogram:
    pressed = sums.histograms[f"pressed_{name}"]
    return pressed if scope == PRESSED else without(sums.histograms[name], pressed)
