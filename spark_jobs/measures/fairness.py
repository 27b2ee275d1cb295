"""Table `fairness`: indices of evenness over all clients, by broker, listener and client id prefix, for each QoS.

The clients (broker and client id, over all their sessions) are those to which something was due in the scope (all
deliveries, or those of one QoS), see `measures.sessions`. They are compared by:

- **delivery ratio**: x = min(1, sent / due). It shows whether the broker treats clients equally. It is limited to 1
  because an earlier backlog can also be sent.
- **goodput**: x = deliveries sent for the first time (without resends) per second of connection. Its evenness also
  depends on the demand of the clients. Clients connected for less than nine tenths of one interval are left out and
  counted in `left_out`, because a rate over a very short time is meaningless.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.datasets.raw import total
from spark_jobs.measures import evenness
from spark_jobs.measures.evenness import GOODPUT_SCALE, RATIO_SCALE, Evenness
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import CLIENT, due
from spark_jobs.measures.sums import ALL_QOS, EACH_QOS

ALL: Final = "all"
OTHERS: Final = "(others)"
GROUPED_BY: Final = ("broker", "listener", "client_prefix")
WELL_SERVED: Final = 0.95
"""A client with a lower delivery ratio is poorly served."""
MOST_NAMES: Final = 30  # brokers, listeners, and client id prefixes, with their own rows
RATIO: Final = "delivery_ratio"
GOODPUT: Final = "goodput"
_MARKED: Final = ("poorly_served", "away")
_DUE: Final = "due"
_SERVED: Final = "served"


def of_qos(prefix: str, qos: str) -> Column:
    """A counter of one QoS, or of all."""
    return F.col(prefix if qos == ALL_QOS else f"{prefix}_qos{qos}")


def compared(due: Column, sent: Column, interval_us: int, more: Mapping[str, Column]) -> Column:
    """Structs of `what` and `value`: the compared quantities of a client and more; null for what does not count."""
    connected = F.col("connected_us")
    rated = (due > 0) & (connected >= max(1, interval_us * 9 // 10))
    found = {
        RATIO: F.when(due > 0, evenness.delivery_ratio(sent, due)),
        GOODPUT: F.when(rated, evenness.goodput(sent, connected)),
        **more,
    }
    return F.array(*[F.struct(F.lit(what).alias("what"), value.alias("value")) for what, value in found.items()])


def poorly_served(due: Column, sent: Column) -> Column:
    """Whether a client was sent less than WELL_SERVED of what was due to it."""
    return sent < due * WELL_SERVED


def largest_groups(clients: DataFrame) -> DataFrame:
    """The brokers, listeners and client id prefixes with most sessions: `scope`, `name`, and `place` from 1.

    At most MOST_NAMES of each, but all brokers.
    """
    named = F.array(*[F.struct(F.lit(scope).alias("scope"), F.col(scope).alias("name")) for scope in GROUPED_BY])
    counted = clients.select(F.inline(named)).groupBy("scope", "name").count()
    largest_first = Window.partitionBy("scope").orderBy(F.desc("count"), "name")
    ranked = counted.withColumn("place", F.row_number().over(largest_first))
    return ranked.where((F.col("place") <= MOST_NAMES) | (F.col("scope") == GROUPED_BY[0]))


def by_scope(clients: DataFrame, interval_us: int, groups: Mapping[str, Sequence[str]]) -> DataFrame:
    """The sums of evenness by `scope`, `place` in its names from 1 (0: the others), `qos` and `what`.

    Args:
        clients: one row per client, see `sessions.per_client`.
        interval_us: the usual interval.
        groups: scope -> the names with their own rows.
    """
    inside = {ALL: F.lit(0)} | {
        scope: F.array_position(F.lit(list(names)), F.col(scope)).cast("int") for scope, names in groups.items()
    }
    scopes = F.array(
        *[F.struct(F.lit(scope).alias("scope"), place.alias("place")) for scope, place in inside.items()]
    )
    flows = []
    for qos in EACH_QOS:
        offered, due, sent = (of_qos(name, qos) for name in ("offered", "due", "sent"))
        # Who missed something because they were away counts as away.
        marked = zip(_MARKED, (poorly_served(due, sent), due < offered), strict=True)
        ones = {kind: F.when(which, F.lit(1).cast("bigint")) for kind, which in marked}
        flows.append(F.struct(F.lit(qos).alias("qos"), compared(due, sent, interval_us, ones).alias("values")))
    each = clients.select(scopes.alias("scopes"), F.inline(F.array(*flows)))
    each = each.select("scopes", "qos", F.inline("values")).where(F.col("value").isNotNull())
    return evenness.by_group(each.select("qos", "what", "value", F.inline("scopes")), ["scope", "place", "qos", "what"])


def by_hour(rows: DataFrame, interval_us: int) -> DataFrame:
    """The sums of evenness by `hour_us` and `what`, over the clients of each hour, all QoS; and those of `shares`.

    Args:
        rows: rows by `store.schema.SESSION_COLUMNS`.
        interval_us: the usual interval.
    """
    flow = {"due": due()["due"], "sent": total("sent"), "connected_us": F.col("connected_us")}
    clients = rows.groupBy("hour_us", *CLIENT).agg(*[F.sum(column).alias(name) for name, column in flow.items()])
    more = {_DUE: F.col("due"), _SERVED: F.least("sent", "due")}
    values = compared(F.col("due"), F.col("sent"), interval_us, more)
    return evenness.by_group(clients.select("hour_us", F.inline(values)), ["hour_us", "what"])


def shares(sums: Iterable[Mapping[str, Any]]) -> dict[int, float | None]:
    """Hour -> delivery ratio of its clients together, from rows of `by_hour`."""
    found = {(row["hour_us"], row["what"]): int(row["total"]) for row in sums}
    return {hour_us: ratio(found[hour_us, _SERVED], due) for (hour_us, what), due in found.items() if what == _DUE}


def fairness(sums: Iterable[Mapping[str, Any]], groups: Mapping[str, Sequence[str]]) -> list[Row]:
    """The rows of the table.

    Args:
        sums: rows of `by_scope`.
        groups: scope -> the names with their own rows; the rest is "(others)".
    """
    found = {(row["scope"], row["place"], row["qos"], row["what"]): Evenness.of(row) for row in sums}
    rows = []
    for scope, names in ((ALL, ()), *groups.items()):
        for place in (*range(1, len(names) + 1), 0):
            name = names[place - 1] if place else OTHERS if names else ""
            for qos in EACH_QOS:
                kinds = (RATIO, GOODPUT, *_MARKED)
                own = {what: found.get((scope, place, qos, what), Evenness()) for what in kinds}
                if own[RATIO].n or scope == ALL:
                    numbers = {kind: own[kind].n for kind in _MARKED}
                    row: Row = {"scope": scope, "name": name, "qos": qos, **numbers}
                    rows.append(row | _indices(own[RATIO], own[GOODPUT]))
    return rows


def _indices(ratio: Evenness, rate: Evenness) -> Row:
    return {
        "clients": ratio.n,
        "goodput_clients": rate.n,
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
