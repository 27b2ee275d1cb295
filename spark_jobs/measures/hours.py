"""Table `hours`: fairness, latency and starvation by hour, the input of the comparison's significance test.

A session counts in every hour in which it has an interval, with its deliveries offered and sent in that hour.
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


def hours(sums: Sums, even: Mapping[tuple[int, str], Evenness], starved: Mapping[int, int]) -> list[Row]:
    """The rows of the table.

    Args:
        sums: the sums of every hour.
        even: hour and compared quantity -> evenness over the hour's sessions.
        starved: hour -> number of starved sessions.
    """
    rows = []
    for hour_us, part in sums.hours.items():
        shares = even.get((hour_us, RATIO), Evenness())
        rates = even.get((hour_us, GOODPUT), Evenness())
        row: Row = {
            "hour_us": hour_us,
            "sessions": part.sessions,
            "offered": part.count("offered", ALL_QOS),
            "sent": part.count("sent", ALL_QOS),
            "delivery_ratio": ratio(part.of("sent", ALL_QOS), part.of("offered", ALL_QOS)),
            "jain_delivery_ratio": shares.jain,
            "jain_goodput": rates.jain,
            "maxmin_goodput": rates.maxmin,
            "gini_goodput": rates.gini,
            "starved_sessions": starved.get(hour_us, 0),
            "inverted_qos0": part["inverted_qos0"],
            "dropped": part.count("dropped", ALL_QOS),
            "pressure_share": part.pressure_share,
            "seconds": seconds(part["last_us"] - part.start_us),
            "mailbox_busy_share": ratio(part["mailbox_busy_samples"], part["mailbox_samples"]),
        }
        for name in _LATENCIES:
            row |= bounded(f"{name}_p99", part.histograms[f"{name}_buckets"], 990)
        rows.append(row)
    return rows
