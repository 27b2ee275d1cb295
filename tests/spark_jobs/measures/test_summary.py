"""summary.json: what other programs read."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jsonschema_rs
import pytest

from spark_jobs.comparison.compare import AMBIGUOUS, NOT_SIGNIFICANT, SIGNIFICANT, TOO_LITTLE
from spark_jobs.measures.result import Result
from spark_jobs.measures.summary import FORMAT, summary
from spark_jobs.page.finding import Grade
from spark_jobs.page.findings import findings
from spark_jobs.page.verdict import headline, sentences
from spark_jobs.page.words import WORDS
from spark_jobs.thresholds import check
from tests.support.spark.sample_result import sample_comparison, sample_result

pytestmark = pytest.mark.once

SCHEMA: dict[str, Any] = json.loads((files("spark_jobs") / "summary_schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("results", [[sample_result()], sample_comparison()], ids=["one", "two"])
def test_a_summary_has_what_its_schema_says(results: Sequence[Result]) -> None:
    """Every key of it is described, and every key that is described is there."""
    found = [finding.to_json() for finding in findings(results[-1])]
    limits = [each.to_json() for each in check(results[-1], {"jain_delivery_ratio": 0.99})]
    made = summary(results, headline(results), sentences(results), found, limits)
    jsonschema_rs.validator_for(SCHEMA, validate_formats=True).validate(json.loads(json.dumps(made)))


def test_the_schema_has_every_word() -> None:
    """Format, grades, subjects and verdicts are those of the program."""
    finding = SCHEMA["$defs"]["finding"]["properties"]
    assert SCHEMA["properties"]["format"]["const"] == FORMAT
    assert finding["grade"]["enum"] == [grade.name.lower() for grade in Grade]
    assert set(finding["subject"]["enum"]) == {name.partition(":")[0] for name in WORDS["acts"]}
    verdicts = SCHEMA["properties"]["comparison"]["additionalProperties"]["properties"]["verdict"]["enum"]
    assert set(verdicts) == {NOT_SIGNIFICANT, SIGNIFICANT, TOO_LITTLE, AMBIGUOUS}
