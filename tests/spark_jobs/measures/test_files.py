"""Result tables as CSV and Parquet."""

import csv
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.measures import files
from spark_jobs.measures.result import table

pytestmark = pytest.mark.once

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
formulas = st.builds("{}{}".format, st.sampled_from("=+-@\t\r\n'＝＋－＠"), texts)


def read(content: bytes) -> list[list[str]]:
    """The records of a CSV file."""
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


@given(st.lists(texts | formulas, max_size=8))
def test_any_text_survives_csv(names: list[str]) -> None:
    """Every text is restored after removing the apostrophe that prevents a formula."""
    [header, *records] = read(files.to_csv(pa.table({"n": range(len(names)), "name": pa.array(names, pa.string())})))
    assert header == ["n", "name"]
    found = [record[1] for record in records]
    assert [text.removeprefix("'") if text.startswith("'") else text for text in found] == names
    assert not any(text.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")) for text in found)


def test_numbers_are_left_alone() -> None:
    """Negative numbers are not changed; null is empty; bools are true and false."""
    made = pa.table({"a": [-1, None], "b": [-0.5, 1e-9], "c": [True, False]})
    assert files.to_csv(made) == b"a,b,c\r\n-1,-0.5,true\r\n,1e-09,false\r\n"


def test_parquet_keeps_the_exact_text() -> None:
    """Parquet has the unchanged texts."""
    made = table("quality", "run", [{"kind": "=1+1", "count": 1, "example": "\r\n"}])
    assert pq.read_table(io.BytesIO(files.to_parquet(made))).equals(made)


def test_a_row_with_an_unknown_column_is_a_mistake() -> None:
    """A row that does not fit the layout is an error."""
    with pytest.raises(KeyError, match="Faults of the input: has no columns"):
        table("quality", "run", [{"kynd": "x"}])
