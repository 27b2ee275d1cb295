"""Table `lorenz`: Lorenz curves of goodput, delivery ratio and deliveries offered, over sessions, all QoS.

How to read a curve: at 0.5 on the axis of sessions its value is the share of the total of the half with the lowest
values. On the diagonal all are equal; Gini's coefficient is twice the area between curve and diagonal. If goodput's
curve is not below that of deliveries offered, the unevenness comes from the demand, not from the broker.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.measures import evenness
from spark_jobs.measures.fairness import GOODPUT, RATIO, long_enough
from spark_jobs.measures.result import Row

OFFERED: Final = "offered"
CURVES: Final = (GOODPUT, RATIO, OFFERED)


def lorenz(sessions: DataFrame, interval_us: int) -> list[Row]:
    """The rows of the table: 101 points of each defined curve.

    Args:
        sessions: one row per session, see `sessions.per_session`.
        interval_us: the usual interval.
    """
    offered, sent = F.col("offered"), F.col("sent")
    demand = offered > 0
    x = {
        GOODPUT: F.when(demand & long_enough(interval_us), evenness.goodput(sent, F.col("connected_us"))),
        RATIO: evenness.delivery_ratio(sent, offered),
        OFFERED: F.when(demand, offered),
    }
    entries = [F.struct(F.lit(what).alias("what"), x[what].alias("x")) for what in CURVES]
    values = sessions.select(F.inline(F.array(*entries)))
    corners = evenness.lorenz_corners(values, ["what"]).toArrow().to_pylist()
    rows = []
    for what in CURVES:
        curve = evenness.lorenz_curve([corner for corner in corners if corner["what"] == what])
        rows += [{"what": what, "share_sessions": p, "share": share} for p, share in curve]
    return rows
