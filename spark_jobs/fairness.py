"""Jain's fairness index over sessions.

    J(x) = (x1 + ... + xn)**2 / (n * (x1**2 + ... + xn**2))

1 when all sessions get the same, k/n when k of n sessions share everything evenly and the others get nothing.
Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource
Allocation in Shared Computer Systems", DEC Research Report TR-301, 1984.

The sessions are those with deliveries offered in the scope (a window or the whole range; all deliveries or
those of one QoS). Two things are put in for x:

- **delivery ratio**: x = min(1, sent / offered) of the session in the scope. Everybody gets the same share of
  what was meant for them: the index that says whether the broker treats sessions alike. The 1 is a cap for a
  session that, in one window, is also sent what had been waiting from before.
- **goodput**: x = deliveries sent for the first time in the scope (resends do not count). All sessions of a
  scope share its length and the index does not change with the unit, so this is the index of deliveries per
  second too. It falls as well when sessions simply ask for different amounts: it says how even the load is,
  not who is to blame.

The index is null (not defined) without sessions, and when every x is 0.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.metrics import QOS, SESSION_KEY

ALL_QOS: Final = "all"
_DIGITS: Final = (
    9  # sums of fractions depend on their order in the last bits; rounded, a re-run gives the same bytes
)


def total(prefix: str) -> Column:
    """The sum over the three QoS of the columns <prefix>_qos0 to <prefix>_qos2."""
    return F.col(f"{prefix}_qos0") + F.col(f"{prefix}_qos1") + F.col(f"{prefix}_qos2")


def ratio(part: Column, whole: Column) -> Column:
    """part / whole as a fraction; null where whole is 0."""
    return F.when(whole > 0, part / whole)


def jain(x: Column) -> Column:
    """Aggregate: Jain's index over the non-null values of x; null where it is not defined."""
    squares = F.sum(x * x)
    index = F.sum(x) * F.sum(x) / (F.count(x) * squares)
    return F.when(squares > 0, F.round(F.least(F.lit(1.0), index), _DIGITS))


def _scopes() -> list[tuple[str, Column, Column]]:
    """QoS name, offered and sent, for all deliveries and for each QoS."""
    each = [(str(q), F.col(f"offered_qos{q}"), F.col(f"sent_qos{q}")) for q in QOS]
    return [(ALL_QOS, total("offered"), total("sent")), *each]


def fairness(sessions: DataFrame, keys: Sequence[str] = ()) -> DataFrame:
    """Jain's indices by QoS, one row for each value of `keys` and each of all, 0, 1, 2.

    Args:
        sessions: one row per session (and key) with offered_qosN and sent_qosN summed over the scope.
        keys: columns that name the scope, for instance the window; none for the whole range.

    Returns:
        keys, qos, sessions (with something offered), jain_delivery_ratio, jain_goodput,
        lowest_delivery_ratio.
    """
    sums: list[Column] = []
    for qos, offered, sent in _scopes():
        asked = offered > 0
        share = F.when(asked, F.least(F.lit(1.0), sent / offered))
        sums += [
            F.count_if(asked).alias(f"sessions_{qos}"),
            jain(share).alias(f"ratio_{qos}"),
            jain(F.when(asked, sent.cast("double"))).alias(f"goodput_{qos}"),
            F.min(share).alias(f"lowest_{qos}"),
        ]
    wide = sessions.groupBy(*keys).agg(*sums)
    rows = F.array(
        *[
            F.struct(
                F.lit(qos).alias("qos"),
                F.col(f"sessions_{qos}").alias("sessions"),
                F.col(f"ratio_{qos}").alias("jain_delivery_ratio"),
                F.col(f"goodput_{qos}").alias("jain_goodput"),
                F.round(F.col(f"lowest_{qos}"), _DIGITS).alias("lowest_delivery_ratio"),
            )
            for qos, _, _ in _scopes()
        ]
    )
    return wide.select(*keys, F.inline(rows))


def worst_sessions(sessions: DataFrame, count: int) -> DataFrame:
    """The `count` sessions with the lowest delivery ratio; among equals those with more drops, then by name.

    Args:
        sessions: one row per session over the whole range, with offered_qosN, sent_qosN and dropped_qosN.
        count: how many at most; bounded whatever the number of sessions.
    """
    judged = (
        sessions.withColumn("offered", total("offered"))
        .withColumn("sent", total("sent"))
        .withColumn("dropped", total("dropped"))
        .withColumn("delivery_ratio", F.round(ratio(F.col("sent"), F.col("offered")), _DIGITS))
        .where(F.col("offered") > 0)
    )
    return worst_first(judged).limit(count)


def worst_first(sessions: DataFrame) -> DataFrame:
    """Judged sessions, worst first: by delivery ratio, more drops first among equals, then by name."""
    order = [
        F.col("delivery_ratio").asc(),
        F.col("dropped").desc(),
        *[F.col(key).asc() for key in SESSION_KEY],
    ]
    return sessions.orderBy(*order)
