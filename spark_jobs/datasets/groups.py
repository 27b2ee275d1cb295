"""The dataset `groups`: one row for each group of a shared subscription and hour, and one for each of its members.

The row of a group, with an empty client_id, has what its queue was offered, handed over and dropped. The row of a
member has all that was offered and sent to it, of its other subscriptions too: a session has one window.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.datasets import raw
from spark_jobs.datasets.merged import by_key
from spark_jobs.metrics import CLOCKS, DROP_REASONS
from spark_jobs.store.schema import DATASETS, GROUPS, HOUR_US, keys


def groups(rows: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """The dataset of raw rows.

    Args:
        rows: raw rows of groups and of sessions, without copies; of sessions only members count.
        before: rows of the dataset that they are added to.
    """
    columns: dict[str, Column] = {
        "rows": F.count(F.lit(1)),
        "duration_us": F.sum(raw.lived()),
        **{name: F.sum(name) for name in ("connected_us", *(f"{clock}_us" for clock in CLOCKS), "paced_for_us")},
        **{name: F.sum(raw.total(name)) for name in ("offered", "sent", "dropped")},
        **{f"dropped_{reason}": F.sum(raw.dropped(reason)) for reason in DROP_REASONS},
        "mqueue_max": F.max("mqueue_max"),
        "first_us": F.min("interval_start_us"),
        "last_us": F.max("interval_end_us"),
    }
    hour = raw.start_of("interval_end_us", HOUR_US)
    each = rows.withColumns({"share_group": F.explode("share_groups"), "hour_us": hour})
    found = each.groupBy(*keys(GROUPS)).agg(*[column.alias(name) for name, column in columns.items()])
    found = found.select(*[column.name for column in DATASETS[GROUPS]])
    return found if before is None else by_key(GROUPS, found.unionByName(before))
