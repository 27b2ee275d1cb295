"""A plugin of pytest: passes the broker's address to the tests, and keeps their results."""

from collections.abc import Generator
from dataclasses import dataclass

import pytest

from tests.support.process import Address

STANDARDS = {4: "3.1.1", 5: "5.0"}
"""The standards by protocol version, the values of the fixture `version`."""


@dataclass(frozen=True)
class Result:
    """How one test ended: for one version, or for both if it has none."""

    file: str
    function: str
    name: str
    version: str | None
    outcome: str
    message: str

    @property
    def test(self) -> str:
        """The test as statements name it."""
        return f"{self.file}::{self.function}"


class Run:
    """Tells the tests which broker they have, one that is running or a new one, and keeps their results."""

    def __init__(self, address: Address | None = None, workers: int = 1) -> None:
        self.address = address
        self.workers = workers
        self.results: list[Result] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the result of the test itself; that of its setup and teardown if they fail or are skipped."""
        report = yield
        if report.when == "call" or report.outcome != "passed":
            self.results.append(_result(item, report))
        return report


def _result(item: pytest.Item, report: pytest.TestReport) -> Result:
    function = getattr(item, "originalname", item.name)
    callspec = getattr(item, "callspec", None)
    version = STANDARDS.get(callspec.params.get("version")) if callspec else None
    return Result(item.path.name, function, item.name, version, report.outcome, _message(report))


def _message(report: pytest.TestReport) -> str:
    """Return the one line that says why, without the traceback."""
    if report.passed:
        return ""
    if isinstance(report.longrepr, tuple):  # file, line and reason of a skip
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else report.longreprtext).strip().splitlines()
    return lines[0] if lines else ""
