"""The dataset `timeline`: one row for each broker and slot."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.datasets import raw
from spark_jobs.datasets.histograms import with_sums
from spark_jobs.datasets.merged import by_key
from spark_jobs.store.schema import TIMELINE, TIMELINE_HISTOGRAMS, keys


def timeline(rows: DataFrame, slot_us: int, before: DataFrame | None = None) -> DataFrame:
    """The dataset of raw rows.

    Args:
        rows: raw rows of broker and interval without copies.
        slot_us: length of a slot.
        before: rows of the dataset that they are added to.
    """
    end = F.col("interval_end_us")
    slots = rows.withColumns({"slot": raw.start_of("interval_end_us", slot_us), "last_us": end})
    if before is not None:
        slots = slots.select(*before.columns).unionByName(before)
    lists = {name: name for name in TIMELINE_HISTOGRAMS}
    return with_sums(by_key(TIMELINE, slots), keys(TIMELINE), [(slots, lists)])
