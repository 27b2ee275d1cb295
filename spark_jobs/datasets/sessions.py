"""The dataset `sessions`: one row for each session and hour."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.columns import maxima, sums
from spark_jobs.datasets import raw
from spark_jobs.datasets.histograms import with_sums
from spark_jobs.datasets.merged import by_key
from spark_jobs.metrics import COUNTERS, HISTOGRAMS, QOS
from spark_jobs.store.schema import (
    DATASETS,
    GAUGES,
    HOUR_US,
    PRESSED_COUNTERS,
    PRESSED_HISTOGRAMS,
    SESSIONS,
    How,
    keys,
)

# Of `time in the hour << _LABEL_BITS | number of the listener << _VERSION_BITS | version`, greatest in the last row.
_LABEL_BITS: Final = 31
_VERSION_BITS: Final = 8
_CLIENT_PREFIX: Final = "^([^-_/.:]*)[-_/.:]"
_LISTS: Final = tuple(column.name for column in DATASETS[SESSIONS] if column.how is How.HISTOGRAM)
_LISTS_OF: Final = {
    **{name: name for name in HISTOGRAMS},
    **{f"pressed_{name}": f"IF(pressed, `{name}`, NULL)" for name in PRESSED_HISTOGRAMS},
}
"""The histograms of a raw row by the names that their sums have."""


def sessions(rows: DataFrame, listeners: Sequence[str], before: DataFrame | None = None) -> DataFrame:
    """The dataset of raw rows.

    Args:
        rows: raw rows of sessions without copies, see `raw.read`.
        listeners: all that they have.
        before: rows of the dataset that they are added to.
    """
    rows = rows.withColumns({"hour_us": raw.start_of("interval_end_us", HOUR_US), "pressed": raw.pressed()})
    counted, parts = _counted(rows, listeners), [(rows, _LISTS_OF)]
    if before is not None:
        counted = by_key(SESSIONS, counted.unionByName(before.drop(*_LISTS)))
        parts.append((before, {name: name for name in _LISTS}))
    return with_sums(counted, keys(SESSIONS), parts)


def _counted(rows: DataFrame, listeners: Sequence[str]) -> DataFrame:
    """All columns but histograms.

    Only numbers are aggregated: with a text among them Spark would sort the rows instead of hashing them. So the last
    listener is found by its number.
    """
    pressed = F.col("pressed")
    numbers = F.create_map(*[F.lit(each) for number, name in enumerate(listeners) for each in (name, number)])
    label = F.shiftleft(numbers[F.col("listener")].cast("bigint"), _VERSION_BITS).bitwiseOR(F.col("protocol_version"))
    time = F.col("interval_end_us") - F.col("hour_us")
    columns: dict[str, Column] = {
        "label": F.max(F.shiftleft(time, _LABEL_BITS).bitwiseOR(label)),
        "rows": F.count(F.lit(1)),
        "connected_rows": F.count_if("connected"),
        "duration_us": F.sum(raw.lived()),
        "first_us": F.min("interval_start_us"),
        "last_us": F.max("interval_end_us"),
        "ended": F.bool_or("ended"),
        "pressed_us": F.sum(F.when(pressed, raw.lived()).otherwise(0)),
        "pressed_rows": F.count_if(pressed),
        "starved_rows": F.count_if(raw.starved()),
        "inverted_qos0": F.sum(raw.inverted()),
        "blocked_rows": F.count_if(raw.blocked()),
        "books_off_rows": F.count_if(raw.books_off()),
        "reasons_off_rows": F.count_if(raw.reasons_off()),
        **{f"away_dropped_qos{qos}": F.sum(raw.away_dropped(qos)) for qos in QOS},
        **{f"away_waiting_qos{qos}": F.sum(raw.away_waiting(qos)) for qos in QOS},
    }
    of_pressed = [F.expr(f"sum(IF(pressed, `{name}`, 0)) AS `pressed_{name}`") for name in PRESSED_COUNTERS]
    of_rows = [each.alias(name) for name, each in columns.items()]
    found = rows.groupBy(*keys(SESSIONS)).agg(*of_rows, *sums(COUNTERS), *maxima(GAUGES), *of_pressed)
    last = F.col("label").bitwiseAND(F.lit((1 << _LABEL_BITS) - 1))
    names = F.array(*[F.lit(name) for name in listeners])
    return found.withColumns(
        {
            "listener": names[F.shiftright(last, _VERSION_BITS).cast("int")],
            "protocol_version": last.bitwiseAND(F.lit((1 << _VERSION_BITS) - 1)).cast("int"),
            "client_prefix": F.regexp_extract("client_id", _CLIENT_PREFIX, 1),
        }
    ).drop("label")
