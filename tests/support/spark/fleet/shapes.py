"""Histograms of typical latencies and lengths, cached by number of samples."""

from functools import cache
from itertools import pairwise
from math import erf, log, sqrt
from typing import Final

import numpy as np

from session.histogram import BUCKETS, Histogram
from spark_jobs.measures.histogram import bucket_low

SHAPES: Final = {
    "wait_calm": (300.0, 0.6),
    "wait_pressed": (1_500_000.0, 0.8),
    "wait_starved": (90_000_000.0, 0.7),
    "ack_calm": (20_000.0, 0.5),
    "ack_pressed": (900_000.0, 0.9),
    "mailbox_calm": (1.5, 0.4),
    "mailbox_busy": (60.0, 0.6),
}
"""Median (microseconds, or deliveries) and sigma of a log-normal distribution."""


@cache
def histogram(shape: str, samples: int) -> Histogram | None:
    """A histogram of this many samples; None for none. It is shared and must not be changed."""
    if samples == 0:
        return None
    rng = np.random.default_rng([samples, *shape.encode()])
    made = Histogram()
    made._counts.extend(rng.multinomial(samples, _probabilities(shape)).tolist())  # adding each sample would take long
    return made


@cache
def _probabilities(shape: str) -> list[float]:
    """The probability of each bucket."""
    median, sigma = SHAPES[shape]
    ends = [bucket_low(bucket + 1) for bucket in range(BUCKETS - 1)]
    below = [0.5 * (1 + erf((log(end) - log(median)) / (sigma * sqrt(2)))) for end in ends]
    bounds = [0.0, *below, 1.0]
    return [high - low for low, high in pairwise(bounds)]
