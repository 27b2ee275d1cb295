"""Raw rows of clients that were forgotten are left out."""

from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.store.erased import Erased


def without(rows: DataFrame, erased: Erased) -> DataFrame:
    """The rows that are not of forgotten clients; only for rows of the time before is a digest computed."""
    if not erased.clients:
        return rows
    end, digest = F.col("interval_end_us"), F.sha2(F.concat(F.lit(erased.salt), "client_id"), 256)
    own = reduce(or_, [(digest == name) & (end <= until) for name, until in erased.clients.items()])
    return rows.where((end > max(erased.clients.values())) | ~own)
