"""The log of a Spark session."""

import logging
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import SparkRuntimeException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Kept(logging.Handler):
    """Collects log records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See logging."""
        self.records.append(record)


@pytest.mark.parametrize("name", ["SQLQueryContextLogger", "DataFrameQueryContextLogger"])
def test_what_is_raised_is_not_logged_too(spark: "SparkSession", name: str) -> None:
    """What fails raises, and does not print Java's stack."""
    from pyspark.logger import PySparkLogger
    from pyspark.sql import functions as F

    refused = {
        "SQLQueryContextLogger": spark.range(1, 2).select(F.expr("raise_error(id)")),
        "DataFrameQueryContextLogger": spark.range(1, 2).select(F.raise_error(F.col("id"))),
    }
    kept = Kept()
    logger = PySparkLogger.getLogger(name)
    logger.addHandler(kept)
    try:
        with pytest.raises(SparkRuntimeException):
            refused[name].collect()
    finally:
        logger.removeHandler(kept)
    assert kept.records == []
