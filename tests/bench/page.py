"""A run's JSON as one page with bars that needs nothing else: `python tests/bench/page.py bench.json bench.html`."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from jinja2 import Environment, StrictUndefined

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import program
from tests.bench.grids import rounded, short
from tests.bench.outputs import writable

UNITS = {
    "cpu_us_per_delivery": "µs of CPU for each delivery",
    "cpu_us_per_cycle": "µs of CPU each time",
    "cpu_us_per_connection": "µs of CPU for each connection",
    "kb_per_connection": "KB for each connection",
}
"""What bars are of, by the keys of a summary."""

RATES = {"cpu_us_per_delivery": "received_per_s", "cpu_us_per_cycle": "cycles_per_s"}
"""What is said beside a bar."""


READING = (
    "Shorter is better. A bar is the median of the rounds, the line on it goes from the lowest to the highest round."
)


@dataclass(frozen=True)
class Row:
    """A broker's bar; numbers are percent of the widest place there is."""

    broker: str
    kind: str
    failure: str = ""
    width: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    figure: str = ""


@dataclass(frozen=True)
class Chart:
    """The bars of one load."""

    title: str
    unit: str
    rows: list[Row]


def page(run: dict[str, Any]) -> str:
    """Return the page of what `run.py --json` has written. Raises KeyError if it is something else."""
    charts = []
    for name, load in run["loads"].items():
        keys = [load["cpu"], *(["kb_per_connection"] if load["cpu"] == "cpu_us_per_connection" else [])]
        results = {result["broker"]: result for result in run["results"] if result["load"] == name}
        charts += [_chart(load["title"], key, results) for key in keys]
    paragraphs = [run["headline"], READING]
    return rendered("benchmark", paragraphs, charts, run["brokers"], run["not_measured"])


def rendered(
    title: str, paragraphs: list[str], charts: list[Chart], brokers: dict[str, str], not_measured: dict[str, str]
) -> str:
    """Return a page with these charts."""
    source = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    known = {"title": title, "paragraphs": paragraphs, "brokers": brokers, "not_measured": not_measured}
    return environment.from_string(source).render(charts=charts, **known)


def _chart(title: str, key: str, results: dict[str, Any]) -> Chart:
    figures = {broker: result["summary"].get(key) for broker, result in results.items()}
    widest = max((figure["highest"] for figure in figures.values() if figure), default=0.0) or 1.0
    rows = []
    for broker, figure in figures.items():
        kind = {"sluice": "own", "sluice-before": "before"}.get(broker, "other")
        if not figure:
            rows.append(Row(broker, kind, results[broker]["failure"] or "not measured"))
            continue
        width, low, high = (round(100 * max(0.0, figure[name]) / widest, 2) for name in ("median", "lowest", "highest"))
        mosquitto = figures.get("mosquitto")
        text = rounded(figure["median"])
        if mosquitto and mosquitto["median"] and broker != "mosquitto":
            text += f" ({figure['median'] / mosquitto['median']:.2f}× Mosquitto)"
        if key in RATES:
            text += f", {short(results[broker]['summary'][RATES[key]]['median'])}/s"
        if results[broker]["failure"]:
            text += "; then it failed"
        rows.append(Row(broker, kind, width=width, lowest=low, highest=high, figure=text))
    return Chart(title, UNITS[key], rows)


def main(
    data: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="What `run.py --json` has written.")],
    out: Annotated[Path, typer.Argument(help="Write the page there.", callback=writable)],
) -> None:
    """Make a page of a run's JSON."""
    try:
        made = page(json.loads(data.read_text()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise typer.BadParameter(f"{data} is not what run.py --json of this version writes") from None
    out.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    program.run(main)
