"""Tables `percentiles` and `histograms`: waiting, acknowledgement and mailbox length, total, under pressure and calm.

`pressed` are the intervals in which the session was under pressure, `calm` all others. Percentiles come from merged
histograms, see `spark_jobs.measures.histogram` for the method and the error bounds.
"""

from collections.abc import Iterator
from typing import Final

from spark_jobs.measures.histogram import (
    PERCENTILES,
    Histogram,
    bounded,
    bucket_high,
    bucket_low,
    highest,
    merged,
    without,
)
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import ALL_QOS, HourSums
from spark_jobs.metrics import HISTOGRAMS, SCHEMA
from spark_jobs.store.schema import PRESSED_HISTOGRAMS

ALL: Final = "all"
PRESSED: Final = "pressed"
CALM: Final = "calm"
_UNITS: Final = {field.name: field.unit for field in SCHEMA.fields}


def kind_of(name: str) -> tuple[str, str]:
    """Metric and QoS of a histogram: ("wait", "1") for wait_qos1_buckets, ("mailbox", "all") for mailbox_buckets."""
    metric, _, qos = name.removesuffix("_buckets").partition("_qos")
    return metric, qos or ALL_QOS


def distributions(sums: HourSums) -> Iterator[tuple[Row, Histogram]]:
    """Every distribution with its metric, qos, scope and unit; `wait` also over all QoS."""
    waits = [sums.histograms[name] for name in HISTOGRAMS if kind_of(name)[0] == "wait"]
    yield _kind("wait", ALL_QOS, ALL, "us"), merged(waits)
    for name in HISTOGRAMS:
        whole = sums.histograms[name]
        yield _kind(*kind_of(name), ALL, _UNITS[name]), whole
        if name in PRESSED_HISTOGRAMS:
            pressed = sums.histograms[f"pressed_{name}"]
            yield _kind(*kind_of(name), PRESSED, _UNITS[name]), pressed
            yield _kind(*kind_of(name), CALM, _UNITS[name]), without(whole, pressed)


def _kind(metric: str, qos: str, scope: str, unit: str) -> Row:
    return {"metric": metric, "qos": qos, "scope": scope, "unit": unit}


def percentiles(sums: HourSums) -> list[Row]:
    """The rows of `percentiles`; null without values. max is the highest non-empty bucket."""
    rows = []
    for kind, histogram in distributions(sums):
        row = kind | {"samples": sum(histogram)}
        for name, per_mille in PERCENTILES.items():
            row |= bounded(name, histogram, per_mille)
        low, high = highest(histogram) or (None, None)
        rows.append(row | {"max_low": low, "max_high": high})
    return rows


def histograms(sums: HourSums) -> list[Row]:
    """The rows of `histograms`: every bucket that has counted something."""
    rows = []
    for kind, histogram in distributions(sums):
        samples = sum(histogram)
        for bucket, count in enumerate(histogram):
            if not count:
                continue
            rows.append(
                kind
                | {
                    "bucket": bucket,
                    "low": bucket_low(bucket),
                    "high": bucket_high(bucket),
                    "count": count,
                    "share": ratio(count, samples),
                }
            )
    return rows
