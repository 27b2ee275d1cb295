"""The figures of a report as OpenMetrics text, for a push or a textfile collector."""

from collections.abc import Sequence

from spark_jobs.measures.result import Result
from spark_jobs.thresholds import Checked, values_of


def open_metrics(results: Sequence[Result], checked: Sequence[Checked]) -> str:
    """Gauges `sluice_report_<measure>` of every run, and of the last one whether each threshold is exceeded.

    Measures without a value are left out. The time of the report's last interval is a gauge, because a collector takes
    the time of its own.
    """
    lines = []
    values = {result.label: values_of(result) for result in results}
    for measure in values[results[-1].label]:
        lines.append(f"# TYPE sluice_report_{measure} gauge")
        for label, found in values.items():
            if (value := found[measure]) is not None:
                lines.append(f"sluice_report_{measure}{{{_labels(run=label)}}} {value}")
    lines.append("# TYPE sluice_report_last_interval_end_seconds gauge")
    for result in results:
        labels = _labels(run=result.label)
        lines.append(f"sluice_report_last_interval_end_seconds{{{labels}}} {result.facts.last_us / 1e6}")
    lines.append("# TYPE sluice_report_threshold_exceeded gauge")
    for each in checked:
        labels = _labels(run=results[-1].label, measure=each.measure)
        lines.append(f"sluice_report_threshold_exceeded{{{labels}}} {int(each.exceeded)}")
    return "\n".join([*lines, "# EOF", ""])


def _labels(**labels: str) -> str:
    escaped = {
        name: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, text in labels.items()
    }
    return ",".join(f'{name}="{text}"' for name, text in escaped.items())
