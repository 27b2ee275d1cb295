"""Reports without client ids."""

import pytest

from spark_jobs.measures import files
from spark_jobs.measures.hashing import hashed
from spark_jobs.page import render
from tests.support.spark.sample_result import sample_result

pytestmark = pytest.mark.once


def test_no_client_id_is_left() -> None:
    """Tables and page have digests instead of client ids: the same digest for the same id, everywhere."""
    result = sample_result()
    ids = set(result.tables["worst_sessions"]["client_id"].to_pylist())
    groups = {row["name"] for row in result.rows_of("fairness") if row["scope"] == "client_prefix"} - {""}
    hidden = hashed(result, "key")
    written = b"".join(data for _, data in files.encoded([hidden])).decode(errors="replace") + render([hidden])
    plain = [client_id for client_id in ids if client_id.startswith("meter/")]  # others are file names too
    assert plain
    assert not [client_id for client_id in plain if client_id in written]
    assert not [group for group in groups if f">{group}<" in written]
    again = hashed(result, "key").tables["worst_sessions"]["client_id"]
    assert again == hidden.tables["worst_sessions"]["client_id"]
    assert again != hashed(result, "other").tables["worst_sessions"]["client_id"]
    assert len(set(again.to_pylist())) == len(ids)
    assert hidden.tables["worst_sessions"]["offered"] == result.tables["worst_sessions"]["offered"]
