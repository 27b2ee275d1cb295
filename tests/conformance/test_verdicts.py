"""How results of tests become verdicts on statements, and what the table shows."""

import io

from rich.console import Console

from tests.conformance.catalogue import Statement
from tests.conformance.run import Result
from tests.conformance.table import show
from tests.conformance.verdicts import Verdict, Verdicts

OLD = Statement("MQTT-3.1.0-1", "3.1.1", "CONNECT comes first.", ("test_a.py::test_first",))
NEW = Statement("MQTT-3.1.0-1", "5.0", "CONNECT comes first.", ("test_a.py::test_first", "test_a.py::test_more"))


def result(function: str, outcome: str, version: str | None = None) -> Result:
    """A test that has ended with this outcome."""
    return Result("test_a.py", function, f"{function}[{version}]", version, outcome, "because")


def verdicts(*results: Result) -> list[Verdict]:
    """The verdicts on the two statements."""
    return [judged.verdict for judged in Verdicts([OLD, NEW], results).all]


def test_shown() -> None:
    """A statement with a passed test is shown, even if others of its tests were skipped."""
    passed = result("test_first", "passed")
    assert verdicts(passed, result("test_more", "skipped")) == [Verdict.SHOWN, Verdict.SHOWN]


def test_of_one_version() -> None:
    """The run of a test for one version does not count for the other."""
    assert verdicts(result("test_first", "failed", "5.0")) == [Verdict.NOT_RUN, Verdict.FAILING]
    runs = (result("test_first", "passed", "3.1.1"), result("test_first", "failed", "5.0"))
    assert verdicts(*runs) == [Verdict.SHOWN, Verdict.FAILING]


def test_failing() -> None:
    """A statement with one failed test is failing."""
    assert verdicts(result("test_first", "passed"), result("test_more", "failed")) == [Verdict.SHOWN, Verdict.FAILING]


def test_not_run() -> None:
    """A statement all of whose tests were skipped is not run."""
    assert verdicts(result("test_first", "skipped")) == [Verdict.NOT_RUN, Verdict.NOT_RUN]


def test_without_tests() -> None:
    """Statements that are not observable or bind clients have that verdict, whatever the results are."""
    unseen = Statement("MQTT-3.1.0-2", "5.0", "Nobody sees it.", not_observable="nobody does")
    clients = Statement("MQTT-3.1.0-3", "5.0", "Clients do it.", client_only=True)
    found = [judged.verdict for judged in Verdicts([unseen, clients], []).all]
    assert found == [Verdict.NOT_OBSERVABLE, Verdict.CLIENT_ONLY]


def test_table() -> None:
    """A failing statement is printed with its sentence and test, and so is a failed test that no statement names."""
    console = Console(file=io.StringIO(), width=100)
    show(Verdicts([OLD, NEW], [result("test_more", "failed"), result("test_unnamed", "failed")]), console)
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    failing, unnamed = printed.split("Tests that fail")
    assert "3.1 CONNECT" in failing
    assert "MQTT-3.1.0-1 (5.0) CONNECT comes first." in failing
    assert "test_a.py::test_more[None]  because" in failing
    assert "test_a.py::test_unnamed[None]  because" in unnamed
