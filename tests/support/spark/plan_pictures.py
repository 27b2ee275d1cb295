"""Pictures of the plans in Spark's SQL tab: `python -m tests.support.spark.plan_pictures FOLDER`.

Compacts a small input and reports on it in a session with Spark's user interface, and photographs the plans.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

from spark_jobs.job import Options, Source, make_report
from spark_jobs.progress import Progress
from spark_jobs.spark import session
from tests.support.looking import launched
from tests.support.spark.compacting import minutes, runner
from tests.support.spark.metrics_files import row, write_metrics

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize
    from pyspark.sql import SparkSession

_SIZE: "Final[ViewportSize]" = {"width": 1200, "height": 900}
_WHOLE: Final = """svg => {
  const box = svg.querySelector("g").getBBox();
  const plan = document.getElementById("plan-viz-graph");
  plan.replaceChildren(svg);
  document.body.replaceChildren(...document.querySelectorAll("body link, body style"), plan);
  svg.querySelector("g").removeAttribute("transform");
  svg.setAttribute("viewBox", `${box.x} ${box.y} ${box.width} ${box.height}`);
  svg.style = `width: ${box.width}px; height: ${box.height}px; max-height: none`;
}"""
"""Shows the plan alone: the tab fits it into a window."""


def main(folder: Path) -> None:
    """Write plan-compact.png and plan-report.png: each the largest plan."""
    with session("local[2]", {"spark.ui.enabled": "true"}) as started, tempfile.TemporaryDirectory() as name:
        place = Path(name)
        starved = [row("starved", 60 * minute, 60, offered_qos1=1) for minute in range(1, 9)]
        write_metrics(place / "raw", [*minutes(*range(1, 9)), *starved])
        runner(started.spark)(place / "raw", place / "store")
        compactions = _executions(started.spark)
        source = Source("store", store=str(place / "store"))
        make_report(Options((source,), str(place / "out")), Progress(quiet=True))
        reports = [each for each in _executions(started.spark) if each not in compactions]
        for job, executions in (("compact", compactions), ("report", reports)):
            largest = max(executions, key=lambda each: len(each["nodes"]))
            page = f"{started.spark.sparkContext.uiWebUrl}/SQL/execution/?id={largest['id']}"
            _photograph(page, folder / f"plan-{job}.png")


def _executions(spark: "SparkSession") -> list[dict[str, Any]]:
    context = spark.sparkContext
    with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/sql?length=1000") as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return found


def _photograph(url: str, path: Path) -> None:
    with launched() as browser:
        page = browser.new_page(viewport=_SIZE)
        page.goto(url)
        plan = page.locator("#plan-viz-graph svg")
        plan.locator("g.node").first.wait_for()
        plan.evaluate(_WHOLE)
        page.locator("svg").first.screenshot(path=path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
