"""The figures of a report as OpenMetrics text, for a push or a textfile collector."""

from collections.abc import Sequence
from typing import Final

from spark_jobs.comparison.measured import MEASURED
from spark_jobs.measures.result import Result
from spark_jobs.thresholds import STARVED_SHARE, Checked, values_of, without_value

_UNITS: Final = {"us": ", in microseconds", "share": ", as a fraction", "per_second": ", per second"}
_HELP: Final = {each.measure: f"{each.name}{_UNITS.get(each.unit, '')}." for each in MEASURED} | {
    STARVED_SHARE: "Starved clients, as a fraction of all."
}


def open_metrics(results: Sequence[Result], checked: Sequence[Checked]) -> str:
    """Gauges `sluice_report_<measure>` of every run, and of the last one whether each threshold is exceeded.

    Measures without a value are left out; `sluice_report_without_value` has those that should have one. The time of the
    report's last interval is a gauge, because a collector takes the time of its own.
    """
    lines = []
    values = {result.label: values_of(result) for result in results}
    for measure in values[results[-1].label]:
        lines += _head(measure, _HELP[measure])
        for label, found in values.items():
            if (value := found[measure]) is not None:
                lines.append(f"sluice_report_{measure}{{{_labels(run=label)}}} {value}")
    lines += _head("last_interval_end_seconds", "End of the last interval, since 1970.")
    for result in results:
        labels = _labels(run=result.label)
        lines.append(f"sluice_report_last_interval_end_seconds{{{labels}}} {result.facts.last_us / 1e6}")
    lines += _head("without_value", "Measures without a value although deliveries were offered.")
    for result in results:
        for measure in sorted(without_value(result)):
            lines.append(f"sluice_report_without_value{{{_labels(run=result.label, measure=measure)}}} 1")
    lines += _head("threshold_exceeded", "Whether the limit is missed.")
    for each in checked:
        labels = _labels(run=results[-1].label, measure=each.measure)
        lines.append(f"sluice_report_threshold_exceeded{{{labels}}} {int(each.exceeded)}")
    return "\n".join([*lines, "# EOF", ""])


def _head(measure: str, meaning: str) -> list[str]:
    return [f"# HELP sluice_report_{measure} {meaning}", f"# TYPE sluice_report_{measure} gauge"]


def _labels(**labels: str) -> str:
    escaped = {
        name: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, text in labels.items()
    }
    return ",".join(f'{name}="{text}"' for name, text in escaped.items())
