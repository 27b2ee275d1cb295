"""The command of `make matrix`: it lists what it has tried, and refuses unknown names."""

import pytest
from typer import Typer
from typer.testing import CliRunner

from tests.clients.__main__ import main

pytestmark = pytest.mark.once

RUNNER = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.fixture
def app() -> Typer:
    """The command."""
    made = Typer(add_completion=False)
    made.command()(main)
    return made


def test_a_cell_of_the_matrix(app: Typer) -> None:
    """One client and one case can be selected; the table and the exit status show success."""
    result = RUNNER.invoke(app, ["--clients", "paho", "--cases", "retained-v5"])
    assert result.exit_code == 0, result.output
    assert "paho retained-v5-tcp: ok" in result.output
    assert "1 cases, 0 failed, 0 clients missing" in result.output


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [("--clients", "pahoo", "no such client: pahoo"), ("--cases", "brust", "no case's name holds 'brust'")],
)
def test_unknown_names(app: Typer, flag: str, value: str, said: str) -> None:
    """An unknown client or case is named in the error, and nothing is run."""
    result = RUNNER.invoke(app, [flag, value])
    assert result.exit_code == 2
    assert said in result.output
