"""Options and arguments that are wrong: what was found, and what would be right, in our words."""

import pytest
from typer.testing import CliRunner

from broker.cli.main import app

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("ctl list foo", "for 'what': 'foo' is not one of 'clients', 'sessions', "),
        ("ctl list clients --limit 5000", "for '--limit': found '5000': write at most 1000"),
        ("ctl list clients --limit some", "for '--limit': found 'some': write a whole number"),
        ("ctl token a --role admin", "for '--role': 'admin' is not one of 'viewer', 'operator'"),
        ("top --sort what", "for '--sort': 'what' is not one of "),
        ("user scram --iterations 1 name", "for '--iterations': found '1': write at least "),
    ],
)
def test_words(arguments: str, said: str) -> None:
    """The message names the option and what it takes, without words of the library that reads it."""
    result = CliRunner().invoke(app, arguments.split())
    assert result.exit_code == 2
    assert said in result.output
    assert "Value error" not in result.output
    assert "Input should" not in result.output
