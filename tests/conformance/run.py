"""A run of these tests, as a plugin of pytest: which broker they are for, and how each of them ended."""

from collections.abc import Generator
from dataclasses import dataclass

import pytest

from tests.support.process import Address

STANDARDS = {4: "3.1.1", 5: "5.0"}
"""The standards by protocol version, which is what the tests' `version` is."""


@dataclass(frozen=True)
class Result:
    """How one test ended, for one version or, if it has none, for both."""

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
    """Hands the address of the broker to the tests, if there is one already, and keeps their results."""

    def __init__(self, address: Address | None = None) -> None:
        self.address = address
        self.results: list[Result] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the result of the test itself, and of what comes before and after it if that fails or is skipped."""
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
    """Return the one line that says why, without the trace."""
    if report.passed:
        return ""
    if isinstance(report.longrepr, tuple):  # where, at which line, and why it was skipped
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else report.longreprtext).strip().splitlines()
    return lines[0] if lines else ""
