"""The figures as Markdown."""

from typing import Final

from tests.bench.fairness.spent import MIB, Spent
from tests.bench.fairness.steps import Round, Side

MANY_ROWS: Final = 10_000_000
MOST_TO_DUCKDB: Final = {True: 5.0, False: 7.0}
"""The most processor time of a compaction as a multiple of DuckDB's, without starts: of MANY_ROWS, and of fewer."""

MOST_FOR_TEN: Final = 1.1
"""The most time for more sessions, as a multiple of proportional growth."""

MOST_DIFFERENCES: Final = 40
"""The most differences that are listed."""

MOST_DRIVER: Final = 1.1
"""The most that the driver's memory may grow, for any number of sessions."""


def of_round(one: Round) -> str:
    """The cost of each step on both sides, and the ratio."""
    rows = one.planted.rows
    lines = [
        f"{rows:,} rows, {one.planted.sessions:,} sessions, {one.planted.files:,} files.",
        "",
        "| step | | wall s | processor s | rows/s | memory MiB | driver MiB | its heap, live |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for step in ("compact", "report"):
        for name, side in (("Spark", one.spark), ("DuckDB", one.duck)):
            lines.append(_line(step, name, side.net(step), rows))
    lines += [_line("start", name, side.start, 0) for name, side in (("Spark", one.spark), ("DuckDB", one.duck))]
    verdict = (
        f"Spark takes {ratio(one):.2f} times DuckDB's processor time to compact (at most {most(one):g});"
        " its start is not counted. Spark's report makes many more tables than DuckDB does here."
    )
    lines += ["", verdict, "", f"Compared values that differ: {len(one.differences)}"]
    lines += [f"- {difference}" for difference in one.differences[:MOST_DIFFERENCES]]
    return "\n".join(lines)


def _line(step: str, name: str, spent: Spent, rows: int) -> str:
    rate = f"{rows / spent.wall:,.0f}" if rows and spent.wall > 0 else ""
    driver = f"{spent.driver / MIB:,.0f}" if spent.driver else ""
    heap = f"{spent.heap / MIB:,.0f}, {spent.live / MIB:,.0f}" if spent.heap else ""
    figures = f"{spent.wall:.1f} | {spent.cpu:.1f} | {rate} | {spent.memory / MIB:,.0f} | {driver} | {heap}"
    return f"| {step} | {name} | {figures} |"


def ratio(one: Round) -> float:
    """Spark's processor time to compact over DuckDB's, without starts."""
    spark, duck = (side.net("compact").cpu for side in (one.spark, one.duck))
    return spark / duck if duck > 0 else float("inf")


def most(one: Round) -> float:
    """The most that the ratio may be."""
    return MOST_TO_DUCKDB[one.planted.rows >= MANY_ROWS]


def of_scale(small: Round, large: Round, scale: int) -> str:
    """The growth of time and memory with the number of sessions."""
    lines = [
        f"{scale} times the sessions at the same rows per session:",
        "",
        "| step | wall s | | ratio | driver MiB | | ratio | live heap MiB | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for step in ("compact", "report"):
        one, other = small.spark.net(step), large.spark.net(step)
        whole = _of(small.spark, step), _of(large.spark, step)
        lines.append(
            f"| {step} | {one.wall:.1f} | {other.wall:.1f} | {_ratio(one.wall, other.wall):.2f} |"
            f" {whole[0].driver / MIB:,.0f} | {whole[1].driver / MIB:,.0f} |"
            f" {_ratio(whole[0].driver, whole[1].driver):.2f} |"
            f" {whole[0].live / MIB:,.0f} | {whole[1].live / MIB:,.0f} |"
        )
    lines += ["", f"At most {scale * MOST_FOR_TEN:g} times the time, and {MOST_DRIVER:g} times the driver's memory."]
    return "\n".join(lines)


def _of(side: Side, step: str) -> Spent:
    spent: Spent = getattr(side, step)
    return spent


def _ratio(one: float, other: float) -> float:
    return other / one if one > 0 else float("inf")
