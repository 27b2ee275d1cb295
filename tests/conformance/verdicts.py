"""Derives verdicts on the statements from the results of the tests."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from tests.conformance.catalogue import Statement
from tests.conformance.run import Result


class Verdict(Enum):
    """What a run has shown about a statement."""

    SHOWN = "shown"
    NOT_OBSERVABLE = "not observable"
    FAILING = "failing"
    NOT_RUN = "not run"
    CLIENT_ONLY = "client only"


@dataclass(frozen=True)
class Judged:
    """A statement, its verdict, and the results that contradict it."""

    statement: Statement
    verdict: Verdict
    against: tuple[Result, ...] = ()


class Verdicts:
    """All statements with their verdicts, and the failed tests that no statement names."""

    def __init__(self, statements: Iterable[Statement], results: Sequence[Result]) -> None:
        by_test: dict[str, list[Result]] = defaultdict(list)
        for result in results:
            by_test[result.test].append(result)
        self.all = [_judge(statement, by_test) for statement in statements]
        self.failing = [judged for judged in self.all if judged.verdict is Verdict.FAILING]
        blamed = {result for judged in self.failing for result in judged.against}
        self.others = [result for result in results if result.outcome == "failed" and result not in blamed]

    def of(self, section: str) -> list[Judged]:
        """Return those of one section."""
        return [judged for judged in self.all if judged.statement.section == section]


def _judge(statement: Statement, by_test: dict[str, list[Result]]) -> Judged:
    if statement.client_only:
        return Judged(statement, Verdict.CLIENT_ONLY)
    results = [
        result
        for test in statement.tests
        for result in by_test.get(test, ())
        if result.version in (None, statement.version)
    ]
    failed = tuple(result for result in results if result.outcome == "failed")
    if failed:
        return Judged(statement, Verdict.FAILING, failed)
    if any(result.outcome == "passed" for result in results):
        return Judged(statement, Verdict.SHOWN)
    return Judged(statement, Verdict.NOT_OBSERVABLE if statement.not_observable else Verdict.NOT_RUN)
