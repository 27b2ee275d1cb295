"""Table `hours`: fairness, latency and starvation by hour, the input of the comparison's significance test.

A session counts in every hour in which it has an interval, with its deliveries offered and sent in that hour.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.measures import evenness
from spark_jobs.measures.evenness import Evenness
from spark_jobs.measures.fairness import GOODPUT, RATIO, long_enough
from spark_jobs.measures.histogram import bounded
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import total
from spark_jobs.measures.sums import ALL_QOS, Sums

_KEYS: Final = ("hour_us", "what")
_LATENCIES: Final = ("ack_qos1", "ack_qos2", "wait_qos0")


def by_hour(session_hours: DataFrame, interval_us: int) -> dict[tuple[int, str], Evenness]:
    """Evenness of goodput and delivery ratio, by hour and compared quantity.

    Args:
        session_hours: rows by `compaction.schema.SESSION_COLUMNS`.
        interval_us: the usual interval.
    """
    offered, sent = total("offered"), total("sent")
    counts = (offered > 0) & long_enough(interval_us)
    rate = F.when(counts, evenness.goodput(sent, F.col("connected_us")))
    entries = [
        F.struct(F.lit(what).alias("what"), x.alias("x"))
        for what, x in ((RATIO, evenness.delivery_ratio(sent, offered)), (GOODPUT, rate))
    ]
    values = session_hours.select("hour_us", F.inline(F.array(*entries)))
    rows = evenness.evenness(values, _KEYS).toArrow().to_pylist()
    return {(row["hour_us"], row["what"]): Evenness.of(row) for row in rows}


def hours(sums: Sums, even: Mapping[tuple[int, str], Evenness], starved: Mapping[int, int]) -> list[Row]:
    """The rows of the table.

    Args:
        sums: the sums of every hour.
        even: see `by_hour`.
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
            "mailbox_busy_share": ratio(part["mailbox_busy_samples"], part["mailbox_samples"]),
        }
        for name in _LATENCIES:
            row |= bounded(f"{name}_p99", part.histograms[f"{name}_hist"], 990)
        rows.append(row)
    return rows
