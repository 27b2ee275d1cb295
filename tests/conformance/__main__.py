"""Tests a broker against all statements: `python -m tests.conformance --help`."""

from typing import Annotated

import pytest
import typer
from rich.console import Console

from tests.conformance.catalogue import FOLDER, load
from tests.conformance.run import Run
from tests.conformance.table import show
from tests.conformance.verdicts import Verdicts
from tests.support.process import Address

OWN_TESTS = ("test_catalogue.py", "test_verdicts.py")
"""Tests of the tools; they show nothing about the broker."""

TESTS = (str(FOLDER), *(f"--ignore={FOLDER / name}" for name in OWN_TESTS))

QUIET = ("-q", "--no-header", "--no-summary", "--tb=no")


def main(
    host: Annotated[str | None, typer.Option(help="Where a broker is running; else a Sluice is started.")] = None,
    port: Annotated[int, typer.Option(help="Its port for plain TCP.")] = 1883,
    keyword: Annotated[str, typer.Option("-k", help="Only the tests that this expression of pytest's chooses.")] = "",
    workers: Annotated[int, typer.Option(min=1, help="Processes of the Sluice that is started.")] = 1,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show each test, and where it fails.")] = False,
) -> None:
    """Run the tests against a broker and print which statements of the standards it keeps."""
    run = Run(Address(host, port) if host else None, workers)
    status = pytest.main([*TESTS, "-k", keyword, *(["-v"] if verbose else QUIET)], plugins=[run])
    verdicts = Verdicts(load(), run.results)
    show(verdicts, Console())
    raise typer.Exit(int(status) or bool(verdicts.failing))


if __name__ == "__main__":
    typer.run(main)
