"""The figures as one page with bars, as a picture of one case, and as a table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from tests.bench.grids import Grid, rounded
from tests.bench.page import Chart, Row, rendered
from tests.fairness.books import Books, Run, books, jain, p99
from tests.fairness.brokers import Contender
from tests.fairness.cases import Case

MIB: Final = 2**20
ROOM: Final = 124
"""The width of the brokers' names in the picture."""
READING: Final = (
    "Jain's index is over publishers, of what arrived of each divided by its max-min fair share: 1 is fair, longer is "
    "better. Everywhere else shorter is better. Lost are deliveries that no reader has got when all is calm again; "
    "acknowledged and lost are those of them for which the publisher had a PUBACK."
)


@dataclass(frozen=True)
class Figures:
    """What is shown of one case and one broker; None where it does not apply."""

    books: Books
    jain: float | None
    p99_s: float | None
    alone_s: float | None
    memory: int
    at_start: int

    @classmethod
    def of(cls, run: Run, alone: Run | None) -> "Figures":
        """Of a run, and of one without those who disturb."""
        before = p99(alone) if alone else None
        fairness = jain(run) if run.case.even else None
        return cls(books(run), fairness, p99(run) if alone else None, before, run.memory, run.at_start)

    @property
    def slower(self) -> float | None:
        """How many times the p99 is what it is alone."""
        return self.p99_s / self.alone_s if self.p99_s is not None and self.alone_s else None

    def as_json(self) -> dict[str, object]:
        """All figures by name."""
        return asdict(self) | {"slower": self.slower}


Results = Mapping[str, Mapping[str, Figures | str]]
"""By case and contender; a text says why there are no figures."""


@dataclass(frozen=True)
class Measure:
    """One figure: how it is called, its number, and how that is written."""

    title: str
    number: Callable[[Figures], float | None]
    label: Callable[[Figures], str]


def _share(figures: Figures, lost: int) -> str:
    return f"{lost:,} ({100 * lost / max(1, figures.books.sent):.1f} %)" if lost else "0"


MEASURES: Final = (
    Measure("Jain's index over publishers", lambda of: of.jain, lambda of: f"{of.jain or 0:.3f}"),
    Measure(
        "p99 of the others, times what it is alone",
        lambda of: of.slower,
        lambda of: f"{rounded(of.slower or 0)} ({_ms(of.p99_s)} / {_ms(of.alone_s)})",
    ),
    Measure("lost", lambda of: of.books.lost, lambda of: _share(of, of.books.lost)),
    Measure(
        "acknowledged and lost",
        lambda of: of.books.acknowledged_lost,
        lambda of: _share(of, of.books.acknowledged_lost),
    ),
    Measure(
        "acknowledged and lost, of those who disturb nobody",
        lambda of: of.books.others_lost,
        lambda of: _share(of, of.books.others_lost),
    ),
    Measure(
        "peak memory",
        lambda of: of.memory / MIB,
        lambda of: f"{of.memory / MIB:.0f} MiB ({of.at_start / MIB:.0f} at the start)",
    ),
)


def _ms(seconds: float | None) -> str:
    return f"{rounded(1000 * (seconds or 0))} ms"


def page(
    results: Results,
    cases: Mapping[str, Case],
    contenders: Sequence[Contender],
    missing: dict[str, str],
    head: list[str],
) -> str:
    """Return the page; `head` says where and how it was measured."""
    charts = []
    for name, of_brokers in results.items():
        for number, measure in enumerate(applying(of_brokers)):
            rows = _rows(of_brokers, measure)
            charts.append(Chart(cases[name].title if not number else "", measure.title, rows))
    versions = {each.name: f"{each.version}; {each.settings or 'as it is installed'}" for each in contenders}
    return rendered("fairness", [*head, READING], charts, versions, missing)


def applying(of_brokers: Mapping[str, Figures | str]) -> list[Measure]:
    """Return the measures that this case has."""
    return [each for each in MEASURES if any(_known(each, figures) for figures in of_brokers.values())]


def _known(measure: Measure, figures: Figures | str) -> bool:
    return isinstance(figures, Figures) and measure.number(figures) is not None


def _rows(of_brokers: Mapping[str, Figures | str], measure: Measure) -> list[Row]:
    numbers = {name: measure.number(each) or 0.0 for name, each in of_brokers.items() if isinstance(each, Figures)}
    widest = max(numbers.values(), default=0.0) or 1.0
    rows = []
    for name, figures in of_brokers.items():
        kind = "own" if name.startswith("sluice") else "other"
        if isinstance(figures, str):
            rows.append(Row(name, kind, figures))
        else:
            rows.append(Row(name, kind, width=round(100 * numbers[name] / widest, 2), figure=measure.label(figures)))
    return rows


def _short(measure: Measure, figures: Figures) -> str:
    """The label without what is in brackets, for which the picture has no room."""
    return measure.label(figures).partition(" (")[0]


def drawn(of_brokers: Mapping[str, Figures | str], title: str) -> str:
    """Return one case as a picture for a README: an SVG file that needs nothing else."""
    # What it imports is not for the publishers' process, which imports this module again.
    from spark_jobs.page.picture import ROW, WIDTH, Bar, bars, picture, placed
    from spark_jobs.page.svg import text

    known = {name: each for name, each in of_brokers.items() if isinstance(each, Figures)}
    left, top, width, high = 24.0, 58.0, WIDTH / 2 - 36, len(known) * ROW + 42.0
    parts = [text(title, left, 32, "title")]
    measures = applying(of_brokers)
    for number, measure in enumerate(measures):
        rows = [
            Bar(name, "r1" if name.startswith("sluice") else "r0", measure.number(each) or 0.0, _short(measure, each))
            for name, each in known.items()
        ]
        x, y = left + number % 2 * (width + left), top + number // 2 * high
        parts.append(text(measure.title, x, y + 8, "head"))
        parts.append(placed(bars(rows, width, measure.title, room=ROOM), x, y + 20))
    return picture("".join(parts), top + -(-len(measures) // 2) * high, title) + "\n"


def grids(results: Results, cases: Mapping[str, Case]) -> list[Grid]:
    """Return a table for each case."""
    tables = []
    for name, of_brokers in results.items():
        measures = applying(of_brokers)
        grid = Grid(cases[name].title, ["broker", *(each.title for each in measures)])
        for broker, figures in of_brokers.items():
            if isinstance(figures, str):
                grid.add(broker, figures, *[""] * (len(measures) - 1), bad=True)
            else:
                grid.add(broker, *(each.label(figures) for each in measures))
        tables.append(grid)
    return tables
