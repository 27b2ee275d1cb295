"""Plays generated configurations: each is written to a folder of its own, imported there, and compared."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from typer.testing import CliRunner

from broker.cli.main import app

Configuration = TypeVar("Configuration")


def play(
    pairs: int, seed: int, made: st.SearchStrategy[Configuration], compare: Callable[[Configuration, Path], None]
) -> int:
    """Compare this many; returns how many have been. Raises AssertionError with one that permits more."""
    played = 0

    @with_seed(seed)
    @settings(
        max_examples=pairs,
        phases=(Phase.generate, Phase.shrink),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(made)
    def play_all(each: Configuration) -> None:
        nonlocal played
        played += 1
        with tempfile.TemporaryDirectory(prefix="sluice-imports-") as folder:
            compare(each, Path(folder))

    play_all()
    return played


def imported(broker: str, source: Path, output: Path) -> tuple[int, str]:
    """The exit status of `sluice import`, and what it prints."""
    result = CliRunner().invoke(app, ["import", broker, str(source), "-o", str(output)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output
