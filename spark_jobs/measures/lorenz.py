"""Table `lorenz`: Lorenz curves of goodput, delivery ratio and deliveries offered, over sessions, all QoS.

How to read a curve: at 0.5 on the axis of sessions its value is the share of the total of the half with the lowest
values. On the diagonal all are equal; Gini's coefficient is twice the area between curve and diagonal. If goodput's
curve is not below that of deliveries offered, the unevenness comes from the demand, not from the broker.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.measures import evenness
from spark_jobs.measures.fairness import GOODPUT, RATIO, compared
from spark_jobs.measures.result import Row

OFFERED: Final = "offered"
CURVES: Final = (GOODPUT, RATIO, OFFERED)


def points(clients: DataFrame, interval_us: int) -> DataFrame:
    """The points of each curve.

    Args:
        clients: one row per client, see `sessions.per_client`.
        interval_us: the usual interval.
    """
    due = F.col("due")
    values = compared(due, F.col("sent"), interval_us, {OFFERED: F.when(due > 0, due)})
    return evenness.by_point(clients.select(F.inline(values)), ["what"])


def lorenz(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows of the table: 101 points of each defined curve.

    Args:
        rows: of `points`.
    """
    found: dict[str, list[Mapping[str, Any]]] = {what: [] for what in CURVES}
    for row in rows:
        found[row["what"]].append(row)
    return [
        {"what": what, "share_clients": p, "share": share}
        for what, own in found.items()
        for p, share in evenness.lorenz_curve(own)
    ]
