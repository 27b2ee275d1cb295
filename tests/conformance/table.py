"""The verdicts as tables: a row for each section, then every statement that is not kept."""

from collections import Counter
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.conformance.catalogue import VERSIONS, Statement
from tests.conformance.run import Result
from tests.conformance.verdicts import Judged, Verdict, Verdicts

STYLES = {
    Verdict.SHOWN: "green",
    Verdict.NOT_OBSERVABLE: "cyan",
    Verdict.FAILING: "bold red",
    Verdict.NOT_RUN: "yellow",
    Verdict.CLIENT_ONLY: "bright_black",
}

COMMON_TITLES = {
    "1.5": "Data representation",
    "3.1": "CONNECT",
    "3.2": "CONNACK",
    "3.3": "PUBLISH",
    "3.4": "PUBACK",
    "3.5": "PUBREC",
    "3.6": "PUBREL",
    "3.7": "PUBCOMP",
    "3.8": "SUBSCRIBE",
    "3.9": "SUBACK",
    "3.10": "UNSUBSCRIBE",
    "3.11": "UNSUBACK",
    "3.12": "PINGREQ",
    "3.13": "PINGRESP",
    "3.14": "DISCONNECT",
    "3.15": "AUTH",
    "4.1": "State",
    "4.2": "Network connections",
    "4.3": "Quality of service",
    "4.4": "Message delivery retry",
    "4.5": "Message receipt",
    "4.6": "Message ordering",
    "4.7": "Topics",
    "6.0": "WebSocket",
    "7.0": "Conformance",
    "7.1": "Conformance targets",
}
TITLES = {
    "3.1.1": COMMON_TITLES | {"2.2": "Fixed header", "2.3": "Variable header", "4.8": "Handling errors"},
    "5.0": COMMON_TITLES
    | {
        "2.1": "Structure of a packet",
        "2.2": "Variable header",
        "4.8": "Subscriptions",
        "4.9": "Flow control",
        "4.10": "Request and response",
        "4.11": "Server redirection",
        "4.12": "Enhanced authentication",
        "4.13": "Handling errors",
    },
}


def show(verdicts: Verdicts, console: Console) -> None:
    """Print the table of each standard and, below, what fails and why."""
    for version in VERSIONS:
        judged = [one for one in verdicts.all if one.statement.version == version]
        console.print(_table(version, judged))
    for one in verdicts.failing:
        console.print(_explained(one), soft_wrap=True)
    if verdicts.others:
        console.print("\nTests that fail and that no statement names:", style="bold")
    for line in _reasons(verdicts.others):
        console.print(line, soft_wrap=True)


def _table(version: str, judged: list[Judged]) -> Table:
    sections: dict[str, Counter[Verdict]] = {}
    for one in sorted(judged, key=lambda one: _order(one.statement)):
        sections.setdefault(_title(one.statement), Counter())[one.verdict] += 1
    total = Counter(one.verdict for one in judged)
    table = Table(title=f"MQTT {version}", title_style="bold", title_justify="left", show_footer=True)
    table.box, table.padding = box.SIMPLE_HEAD, (0, 1, 0, 0)  # eighty columns have to be enough
    table.add_column("section", f"{len(judged)} statements", no_wrap=True)
    for verdict, style in STYLES.items():
        table.add_column(verdict.value, str(total[verdict]), justify="right", style=style, footer_style=style)
    for title, counts in sections.items():
        table.add_row(title, *(str(counts[verdict] or "") for verdict in STYLES))
    return table


def _order(statement: Statement) -> tuple[int, ...]:
    return tuple(int(part) for part in statement.section.split("."))


def _title(statement: Statement) -> str:
    section = ".".join(statement.section.split(".")[:2])
    return f"{section} {TITLES[statement.version].get(section, '')}"


def _explained(judged: Judged) -> Text:
    statement = judged.statement
    title = Text.assemble(("\n" + statement.id, "bold red"), f" ({statement.version}) {statement.says}")
    return Text("\n").join([title, *_reasons(judged.against)])


def _reasons(results: Iterable[Result]) -> list[Text]:
    """Return a line for each test; of a test that fails in several ways, the first."""
    by_test: dict[str, list[Result]] = {}
    for result in results:
        by_test.setdefault(result.test, []).append(result)
    return [_reason(first, len(others)) for first, *others in by_test.values()]


def _reason(result: Result, others: int) -> Text:
    more = f" and {others} more" if others else ""
    return Text.assemble(f"  {result.file}::{result.name}{more}", (f"  {result.message}", "dim"))
