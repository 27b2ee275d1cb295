"""Table `lorenz`: Lorenz curves of goodput, delivery ratio and deliveries offered, over sessions, all QoS.

How to read a curve: at 0.5 on the axis of sessions its value is the share of the total of the half with the lowest
values. On the diagonal all are equal; Gini's coefficient is twice the area between curve and diagonal. If goodput's
curve is not below that of deliveries offered, the unevenness comes from the demand, not from the broker.
"""

from typing import Final

import pyarrow as pa

from spark_jobs.arrays import ints
from spark_jobs.measures.evenness import lorenz_curve
from spark_jobs.measures.fairness import GOODPUT, RATIO, values_of
from spark_jobs.measures.result import Row

OFFERED: Final = "offered"
CURVES: Final = (GOODPUT, RATIO, OFFERED)


def lorenz(sessions: pa.Table, interval_us: int) -> list[Row]:
    """The rows of the table: 101 points of each defined curve.

    Args:
        sessions: one row per client, see `sessions.per_client`.
        interval_us: the usual interval.
    """
    due = ints(sessions, "due")
    values = values_of(due, ints(sessions, "sent"), ints(sessions, "connected_us"), interval_us)
    x = {GOODPUT: values[GOODPUT][1], RATIO: values[RATIO][1], OFFERED: due[due > 0]}
    return [
        {"what": what, "share_clients": p, "share": share} for what in CURVES for p, share in lorenz_curve(x[what])
    ]
