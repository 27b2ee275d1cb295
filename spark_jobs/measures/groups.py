"""Tables `groups` and `group_members`: what groups of shared subscriptions lost, and the members that are slow (FC-13).

A member is **blocked** while its window is full, its rate used up or its path congested: the group hands nothing to it
then. The slowest member is the one with the largest blocked share of its time; it is compared with the median of all.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs import columns
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.why import why
from spark_jobs.metrics import AWAY_REASONS, CLOCKS, DROP_REASONS, NO_CLIENT
from spark_jobs.store.schema import DATASETS, GROUPS, How

MOST: Final = 20
"""Groups of the table, and members of each."""
GROUP: Final = ("broker", "share_group")

_SUMS: Final = tuple(column.name for column in DATASETS[GROUPS] if column.how is How.SUM)
_OF_GROUP: Final = ("offered", "sent", "dropped", "paced_for_us", *(f"dropped_{reason}" for reason in DROP_REASONS))
_USUAL: Final = "percentile_disc(0.5) WITHIN GROUP (ORDER BY IF(lasts, blocked_share, NULL))"
"""The median of the members' blocked shares, of two the lower one."""
_BRIEF: Final = 20
"""A member that was there for less than one part in so many of the longest one's time is not compared."""
_AWAY: Final = tuple(f"dropped_{reason}" for reason in AWAY_REASONS)


def by_member(rows: DataFrame) -> DataFrame:
    """One row for each group, with an empty client_id, and for each member of it: sums, and the blocked share.

    Args:
        rows: rows by `store.schema.GROUP_COLUMNS`.
    """
    found = rows.groupBy(*GROUP, "client_id").agg(
        *columns.sums(_SUMS), *columns.maxima(["mqueue_max"])
    )
    blocked = F.greatest(*[F.col(f"{clock}_us") for clock in CLOCKS])
    length = F.when(F.col("client_id") != NO_CLIENT, F.col("duration_us"))
    longest = F.max(length).over(Window.partitionBy(*GROUP))
    shares = {"blocked_share": blocked / F.greatest("duration_us", F.lit(1)), "lasts": length * _BRIEF >= longest}
    return found.withColumns(shares)


def by_group(members: DataFrame) -> DataFrame:
    """One row for each group: its own sums, its members, the slowest of them and the median of their blocked shares."""
    whole, share = F.col("client_id") == NO_CLIENT, F.col("blocked_share")

    def of_members(value: Column) -> Column:
        return F.when(~whole, value)

    order = F.struct((-share).alias("share"), "sent", "client_id")  # that of `first_members`
    found = members.groupBy(*GROUP).agg(
        *[F.coalesce(F.sum(F.when(whole, F.col(name))), F.lit(0)).alias(name) for name in _OF_GROUP],
        F.coalesce(F.max(F.when(whole, F.col("mqueue_max"))), F.lit(0)).alias("mqueue_max"),
        F.count_if(~whole).alias("members"),
        F.sum(of_members(F.col("sent"))).alias("sent_to_members"),
        F.expr(_USUAL).alias("usual_share"),
        F.min(F.when(F.col("lasts"), order)).alias("slowest"),
    )
    lost = F.col("dropped") - sum((F.col(name) for name in _AWAY), F.lit(0))
    slow = {"slowest": F.col("slowest.client_id"), "slowest_share": -F.col("slowest.share"), "lost": lost}
    return found.withColumns(slow)


def totals(groups: DataFrame) -> DataFrame:
    """The number of groups, and what they lost."""
    return groups.agg(F.count(F.lit(1)).alias("groups"), F.coalesce(F.sum("lost"), F.lit(0)).alias("groups_lost"))


def first_groups(groups: DataFrame) -> DataFrame:
    """The groups of the table: those that lost most, then those with the slowest member compared with the others."""
    gap = F.coalesce(F.col("slowest_share") - F.col("usual_share"), F.lit(0.0))
    return groups.orderBy(F.desc("lost"), gap.desc(), F.desc("mqueue_max"), *GROUP).limit(MOST)


def first_members(members: DataFrame, groups: DataFrame) -> DataFrame:
    """The slowest members of some groups, slowest first."""
    in_order = Window.partitionBy(*GROUP).orderBy(F.desc("lasts"), F.desc("blocked_share"), "sent", "client_id")
    own = members.where(F.col("client_id") != NO_CLIENT).join(F.broadcast(groups.select(*GROUP)), list(GROUP))
    ranked = own.withColumn("rank", F.row_number().over(in_order)).where(F.col("rank") <= MOST)
    return ranked.orderBy(*GROUP, "rank")


def group_row(row: Mapping[str, Any]) -> Row:
    """A row of `groups`."""
    reasons = [reason for reason in DROP_REASONS if reason not in AWAY_REASONS]
    worst = max(reasons, key=lambda reason: row[f"dropped_{reason}"])
    names = ("members", "offered", "sent", "dropped", "lost", "mqueue_max", "paced_for_us", "slowest", "slowest_share")
    return {name: row[name] for name in (*GROUP, *names, "usual_share")} | {"why": worst if row["lost"] else ""}


def member_rows(rows: Iterable[Mapping[str, Any]], groups: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows of `group_members`, in the order of the groups."""
    sent = {(row["broker"], row["share_group"]): row["sent_to_members"] for row in groups}
    found: dict[tuple[str, str], list[Row]] = {key: [] for key in sent}
    for row in rows:
        key = row["broker"], row["share_group"]
        own = {name: row[name] for name in (*GROUP, "client_id", "sent", "blocked_share")}
        # The queue is the group's: what waits there is not due to a member.
        cause = why({**row, "due": row["sent"]})
        found[key].append(own | {"share_of_sent": ratio(row["sent"], sent[key]), "why": cause})
    return [row for of_group in found.values() for row in of_group]
