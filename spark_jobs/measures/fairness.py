"""Table `fairness`: indices of evenness over all sessions, by listener and by topic group, for each QoS.

The sessions are those with deliveries offered in the scope (all deliveries, or those of one QoS), compared by:

- **delivery ratio**: x = min(1, sent / offered). It shows whether the broker treats sessions equally. It is limited to
  1 because an earlier backlog can also be sent.
- **goodput**: x = deliveries sent for the first time (without resends) per second of connection. Its evenness also
  depends on the demand of the sessions. Sessions connected for less than nine tenths of one interval are left out and
  counted in `left_out`, because a rate over a very short time is meaningless.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.measures import evenness
from spark_jobs.measures.evenness import GOODPUT_SCALE, RATIO_SCALE, Evenness
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import total
from spark_jobs.measures.sums import ALL_QOS, EACH_QOS

ALL: Final = "all"
OTHERS: Final = "(others)"
GROUPED_BY: Final = ("listener", "topic_group")
MOST_NAMES: Final = 30  # listeners, and topic groups, with their own rows
RATIO: Final = "delivery_ratio"
GOODPUT: Final = "goodput"
_KEYS: Final = ("scope", "name", "qos", "what")


def long_enough(interval_us: int) -> Column:
    """Whether a session was connected long enough for a meaningful goodput."""
    return F.col("connected_us") >= max(1, interval_us * 9 // 10)


def of_qos(prefix: str, qos: str) -> Column:
    """A counter of one QoS, or of all."""
    return total(prefix) if qos == ALL_QOS else F.col(f"{prefix}_qos{qos}")


def with_values(sessions: DataFrame, interval_us: int, keep: Sequence[str]) -> DataFrame:
    """One row per session, QoS and compared quantity: keep, qos, what, x; without sessions that do not count."""
    entries = []
    for qos in EACH_QOS:
        offered, sent = of_qos("offered", qos), of_qos("sent", qos)
        counts = (offered > 0) & long_enough(interval_us)
        rate = F.when(counts, evenness.goodput(sent, F.col("connected_us")))
        for what, x in ((RATIO, evenness.delivery_ratio(sent, offered)), (GOODPUT, rate)):
            entries.append(F.struct(F.lit(qos).alias("qos"), F.lit(what).alias("what"), x.alias("x")))
    return sessions.select(*keep, F.inline(F.array(*entries))).where(F.col("x").isNotNull())


def largest_groups(sessions: DataFrame) -> dict[str, list[str]]:
    """The listeners and topic groups with most sessions, largest first, at most MOST_NAMES each."""
    found: DataFrame | None = None
    for scope in GROUPED_BY:
        counted = sessions.groupBy(F.col(scope).alias("name")).agg(F.count(F.lit(1)).alias("n"))
        first = counted.orderBy(F.desc("n"), F.asc("name")).limit(MOST_NAMES)
        part = first.select(F.lit(scope).alias("scope"), "name", "n")
        found = part if found is None else found.unionByName(part)
    assert found is not None
    rows = sorted(found.collect(), key=lambda row: (-row["n"], row["name"]))
    return {scope: [row["name"] for row in rows if row["scope"] == scope] for scope in GROUPED_BY}


def fairness(sessions: DataFrame, interval_us: int, groups: Mapping[str, Sequence[str]]) -> list[Row]:
    """The rows of the table.

    Args:
        sessions: one row per session, see `sessions.per_session`.
        interval_us: the usual interval.
        groups: the names with their own rows, see `largest_groups`; the rest is "(others)".
    """
    scopes = [F.struct(F.lit(ALL).alias("scope"), F.lit("").alias("name"))]
    for scope, names in groups.items():
        shown = F.when(F.col(scope).isin(list(names)), F.col(scope)).otherwise(F.lit(OTHERS))
        scopes.append(F.struct(F.lit(scope).alias("scope"), shown.alias("name")))
    values = with_values(sessions, interval_us, GROUPED_BY)
    scoped = values.select("qos", "what", "x", F.inline(F.array(*scopes)))
    found = {tuple(row[key] for key in _KEYS): Evenness.of(row) for row in _collected(scoped)}
    rows = []
    for scope, names in {ALL: ("",), **groups}.items():
        for name in (*names, OTHERS) if scope != ALL else names:
            for qos in EACH_QOS:
                ratio = found.get((scope, name, qos, RATIO), Evenness())
                rate = found.get((scope, name, qos, GOODPUT), Evenness())
                if ratio.n or scope == ALL:
                    rows.append({"scope": scope, "name": name, "qos": qos, **_indices(ratio, rate)})
    return rows


def _collected(values: DataFrame) -> list[Row]:
    return list(evenness.evenness(values, _KEYS).toArrow().to_pylist())


def _indices(ratio: Evenness, rate: Evenness) -> Row:
    return {
        "sessions": ratio.n,
        "goodput_sessions": rate.n,
        "left_out": ratio.n - rate.n,
        "jain_delivery_ratio": ratio.jain,
        "jain_goodput": rate.jain,
        "maxmin_goodput": rate.maxmin,
        "lowest_delivery_ratio": ratio.lowest(RATIO_SCALE),
        "gini_goodput": rate.gini,
        "gini_delivery_ratio": ratio.gini,
        "mean_goodput": rate.mean(GOODPUT_SCALE),
        "lowest_goodput": rate.lowest(GOODPUT_SCALE),
    }
