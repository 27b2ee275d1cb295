"""Limits of measures, and the figures for collectors."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from spark_jobs import cli
from spark_jobs.errors import ReportError
from spark_jobs.measures.result import Result
from spark_jobs.openmetrics import open_metrics
from spark_jobs.thresholds import BETTER, STARVED_SHARE, UNITS, Checked, check, read_thresholds
from tests.support.spark.sample_result import replaced, sample_result

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("spark")]


def test_a_value_beyond_its_limit_is_exit_code_3(
    small_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is made, the measure is named with its value and limit, and summary.json has all limits."""
    limits = tmp_path / "limits.toml"
    arguments = ["report", "--quiet", "--store", str(small_store), "--out", str(tmp_path / "out")]
    limits.write_text("delivery_ratio = 0.99  # at least\nack_qos1_p99 = 1e6\n")
    assert cli.main([*arguments, "--thresholds", str(limits)]) == cli.BEYOND_LIMITS
    assert "threshold exceeded: delivery_ratio is 0.933333, at least 0.99 is allowed" in capsys.readouterr().err
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [(row["measure"], row["exceeded"]) for row in summary["thresholds"]] == [
        ("delivery_ratio", True),
        ("ack_qos1_p99", False),
    ]
    assert 'sluice_report_delivery_ratio{run="store"} 0.933' in (tmp_path / "out" / "metrics.prom").read_text()
    limits.write_text("delivery_ratio = 0.9")
    assert cli.main([*arguments, "--thresholds", str(limits)]) == cli.OK


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("jain = 1", r"jain is not a measure; expected one of .*starved_share"),
        ("sent_per_second = 1", r"sent_per_second is not a measure"),  # more is neither better nor worse
        ("delivery_ratio = '1'", r"delivery_ratio = '1'; expected a fraction from 0 to 1$"),
        ("jain_delivery_ratio = 7", r"jain_delivery_ratio = 7; expected a fraction from 0 to 1$"),  # never held
        ("starved_share = 5", r"starved_share = 5; expected a fraction"),  # never missed: per cent were meant
        ("ack_qos1_p99 = '1'", r"ack_qos1_p99 = '1'; expected a number from 0 to 10\^18, in µs$"),
        ("", r"limits.toml: has no limits; expected lines such as ack_qos1_p99 = 250_000"),
        ("# ack_qos1_p99 = 1", r"has no limits"),
        ("a = 1\nb = 2\ndelivery_ratio = 7", r"ratio = 7; .*\n--thresholds .*: a, b are not measures; expected"),
        ("delivery_ratio = nan", r"delivery_ratio = nan; expected a fraction"),  # nothing is less than it
        ("ack_qos1_p99 = inf", r"ack_qos1_p99 = inf; expected a number"),
        ("delivery_ratio = -0.5", r"delivery_ratio = -0.5; expected a fraction"),
        (f"ack_qos1_p99 = 1{'0' * 400}", r"ack_qos1_p99 = 10{39}; expected a number"),
        (f"ack_qos1_p99 = 1{'0' * 5_000}", r"limits.toml: "),
        (f"a = {'[' * 5_000}", r"limits.toml: "),
        ("delivery_ratio = true", r"expected a fraction"),
        ("delivery_ratio", r"limits.toml: "),
    ],
)
def test_limits_that_mean_nothing_are_refused(tmp_path: Path, text: str, told: str) -> None:
    """The message has the file, what was found, and what was expected."""
    (tmp_path / "limits.toml").write_text(text)
    with pytest.raises(ReportError, match=told):
        read_thresholds(str(tmp_path / "limits.toml"))
    with pytest.raises(ReportError, match="No such file"):
        read_thresholds(str(tmp_path / "none.toml"))


def test_the_documentation_has_every_measure() -> None:
    """MEASURES.md lists those that can have a limit, with the unit, and whether it is the least or the most."""
    units = {"us": "µs", "per_second": "per second", "share": "fraction", "index": "fraction"}
    text = (files("spark_jobs") / "MEASURES.md").read_text(encoding="utf-8").partition("\n## Limits")[2]
    listed: dict[str, tuple[str, str]] = {}
    for names, unit, limit in re.findall(r"^\| (`[^|]*) \| ([^|]*) \| (the least|the most) \|$", text, re.MULTILINE):
        listed |= dict.fromkeys(re.findall("`([a-z0-9_]+)`", names), (unit, limit))
    assert listed == {
        name: (units.get(UNITS[name], UNITS[name]), "the least" if better > 0 else "the most")
        for name, better in BETTER.items()
    }


def test_the_starved_are_a_share_of_all_sessions() -> None:
    """14 of 20,000; the limit itself is allowed."""
    result = sample_result()
    [found] = check(result, {STARVED_SHARE: 14 / 20_000})
    assert (found.value, found.exceeded) == (14 / 20_000, False)
    [found] = check(result, {STARVED_SHARE: 13 / 20_000})
    assert found.exceeded


def outage(result: Result) -> Result:
    """The same with deliveries offered, and none of them sent or acknowledged."""
    nothing: dict[str, dict[str, Any]] = {
        "totals": {"sent": 0, "acknowledged": 0, "delivery_ratio": 0.0},
        "percentiles": {"samples": 0, "p99": None},
        "fairness": dict.fromkeys(("jain_delivery_ratio", "jain_goodput", "maxmin_goodput", "gini_goodput")),
    }
    for name, values in nothing.items():
        rows = [{key: row[key] for key in row if key != "run"} | values for row in result.rows_of(name)]
        result = replaced(result, name, rows)
    return result


UNDEFINED = ("jain_delivery_ratio", "jain_goodput", "maxmin_goodput", "ack_qos1_p99", "ack_qos2_p99", "wait_qos0_p99")


@pytest.mark.parametrize("measure", UNDEFINED)
def test_a_limit_is_missed_if_nothing_came_of_what_was_offered(measure: str) -> None:
    """In a total outage neither an index nor a percentile has a value: that is worse than any, also in metrics.prom."""
    result = outage(sample_result())
    [found] = check(result, {measure: 0.5})
    assert (found.value, found.exceeded) == (None, True)
    assert f"{measure} has no value although deliveries were offered; at " in str(found)
    lines = open_metrics([result], [found]).splitlines()
    assert f'sluice_report_without_value{{run="today",measure="{measure}"}} 1' in lines
    assert f'sluice_report_threshold_exceeded{{run="today",measure="{measure}"}} 1' in lines


def test_a_limit_is_kept_if_nothing_was_offered() -> None:
    """Without deliveries no value is missing."""
    result = outage(sample_result())
    for name, values in (("totals", {"offered": 0}), ("fairness", {"clients": 0, "goodput_clients": 0})):
        rows = [{key: row[key] for key in row if key != "run"} | values for row in result.rows_of(name)]
        result = replaced(result, name, rows)
    checked = check(result, dict.fromkeys(UNDEFINED, 0.5))
    assert not any(found.exceeded for found in checked)
    assert "without_value{" not in open_metrics([result], checked)


def test_figures_are_open_metrics() -> None:
    """Each measure has its type and meaning, the runs as labels, letters escaped; Prometheus' own parser reads it."""
    results = [sample_result("before"), sample_result('a "b"\\\n', better=True)]
    lines = open_metrics(results, check(results[1], {"delivery_ratio": 0.5})).splitlines()
    families = text_string_to_metric_families("\n".join([*lines, ""]))  # type: ignore[no-untyped-call]  # it has no types
    parsed = {family.name: family for family in families}
    assert parsed["sluice_report_ack_qos1_p99"].documentation.endswith("in microseconds.")
    assert parsed["sluice_report_starved_share"].samples[0].labels == {"run": "before"}
    assert all(family.documentation for family in parsed.values())
    assert lines[-1] == "# EOF"
    assert "# TYPE sluice_report_jain_delivery_ratio gauge" in lines
    of = [line for line in lines if line.startswith("sluice_report_jain_delivery_ratio{")]
    assert [line.partition("} ")[0] for line in of] == [
        'sluice_report_jain_delivery_ratio{run="before"',
        r'sluice_report_jain_delivery_ratio{run="a \"b\"\\\n"',
    ]
    assert r'sluice_report_threshold_exceeded{run="a \"b\"\\\n",measure="delivery_ratio"} 0' in lines


def test_values_are_written_without_exponents() -> None:
    """Microseconds can be millions."""
    assert str(Checked("ack_qos1_p99", 250_000, False, 1_898_280.4, True)) == (
        "ack_qos1_p99 is 1,898,280 µs, at most 250,000 µs is allowed"
    )
    assert "is 0.5, at least 0.99" in str(Checked("jain_delivery_ratio", 0.99, True, 0.5, True))
