"""Tables `head_of_line`, `stalled` and `inversion`: what blocked deliveries, and QoS 0 that overtook them.

**Head-of-line blocking**: the waiting time from routed to first sent, by QoS. A session's deliveries are sent in order,
so the cause that blocks the first blocks all: a full window (deliveries or bytes), a used-up rate, a congested path.
Their shares are of the sessions' time and may overlap. **Stalled**: reports of stalled windows and of slow consumers.
**Inversion**: in intervals that began and ended with QoS 1 or 2 waiting, QoS 0 sent minus QoS 0 that had waited or was
gated: it overtook the waiting deliveries, which the gate should prevent.
"""

from collections.abc import Mapping
from typing import Final

from spark_jobs.measures.histogram import PERCENTILES, bounded, merged
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import ALL_QOS, HourSums
from spark_jobs.metrics import CLOCKS, QOS

REPORTS: Final = ("stalled_window", "slow_consumer")


def head_of_line(sums: HourSums, counts: Mapping[str, int]) -> list[Row]:
    """The rows of the table: all QoS with the shares of time, then the waiting times of each.

    Args:
        sums: over the whole range.
        counts: `sessions`, and `window_full`: sessions whose window was full for more than a tenth of their time.
    """
    waits = {str(qos): sums.histograms[f"wait_qos{qos}_buckets"] for qos in QOS}
    rows = []
    for qos, histogram in {ALL_QOS: merged(waits.values()), **waits}.items():
        row: Row = {"qos": qos, "samples": sum(histogram)}
        for name, per_mille in PERCENTILES.items():
            row |= bounded(f"wait_{name}", histogram, per_mille)
        rows.append(row)
    rows[0] |= {f"{clock}_share": ratio(sums[f"{clock}_us"], sums["duration_us"]) for clock in CLOCKS}
    rows[0] |= {"clients": counts["clients"], "clients_window_full": counts["window_full"]}
    return rows


def stalled(sums: HourSums, counts: Mapping[str, int]) -> list[Row]:
    """The rows of the table: reports of each kind, and the number of their sessions."""
    return [{"kind": kind, "reports": sums[kind], "clients": counts[kind]} for kind in REPORTS]


def inversion(sums: HourSums, counts: Mapping[str, int]) -> list[Row]:
    """The row of the table: overtaking deliveries, intervals in which that was possible, sessions concerned."""
    return [
        {
            "inverted_qos0": sums["inverted_qos0"],
            "share_of_sent_qos0": ratio(sums["inverted_qos0"], sums["sent_qos0"]),
            "blocked_rows": sums["blocked_rows"],
            "clients": counts["inverted"],
        }
    ]
