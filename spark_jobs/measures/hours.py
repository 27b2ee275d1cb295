"""Table `hours`: fairness, latency and starvation by hour, the input of the comparison's significance test.

A client counts in every hour in which something was due to it, with its deliveries of that hour.
"""

from collections.abc import Mapping
from typing import Final

from spark_jobs.measures.evenness import Evenness
from spark_jobs.measures.fairness import GOODPUT, RATIO
from spark_jobs.measures.histogram import bounded
from spark_jobs.measures.numbers import ratio, seconds
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import ALL_QOS, Sums

_LATENCIES: Final = ("ack_qos1", "ack_qos2", "wait_qos0")


def hours(
    sums: Sums,
    even: Mapping[tuple[int, str], Evenness],
    shares: Mapping[int, float | None],
    starved: Mapping[int, int],
) -> list[Row]:
    """The rows of the table.

    Args:
        sums: the sums of every hour.
        even: hour and compared quantity -> evenness over the hour's clients.
        shares: hour -> delivery ratio of its clients together.
        starved: hour -> number of starved clients.
    """
    rows = []
    for hour_us, part in sums.hours.items():
        ratios = even.get((hour_us, RATIO), Evenness())
        rates = even.get((hour_us, GOODPUT), Evenness())
        row: Row = {
            "hour_us": hour_us,
            "clients": ratios.n,
            "offered": part.count("offered", ALL_QOS),
            "sent": part.count("sent", ALL_QOS),
            "delivery_ratio": shares.get(hour_us),
            "jain_delivery_ratio": ratios.jain,
            "jain_goodput": rates.jain,
            "maxmin_goodput": rates.maxmin,
            "gini_goodput": rates.gini,
            "starved_sessions": starved.get(hour_us, 0),
            "inverted_qos0": part["inverted_qos0"],
            "dropped": part.count("dropped", ALL_QOS),
            "lost": part.count("dropped", ALL_QOS) - part.count("away_dropped", ALL_QOS),
            "pressure_share": part.pressure_share,
            "seconds": seconds(part["last_us"] - part.start_us),
            "mailbox_busy_share": ratio(part["mailbox_busy_samples"], part["mailbox_samples"]),
        }
        for name in _LATENCIES:
            row |= bounded(f"{name}_p99", part.histograms[f"{name}_buckets"], 990)
        rows.append(row)
    return rows
