"""FC-29: a journal that is damaged at some byte. `make damage` tries every byte."""

import random
import shutil
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from broker.cli.main import app
from tests.durability.damage import Case, cases, frames, judge, make_journal, run

CASES = 150


@pytest.fixture(params=[signal.SIGTERM, signal.SIGKILL])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A journal of a broker that was ended in this way."""
    return make_journal(tmp_path / request.param.name, request.param)


def was_stopped(journal: Path) -> bool:
    """Whether its broker was not killed."""
    return journal.parent.name == signal.SIGTERM.name


def test_it_is_refused_or_whole(journal: Path) -> None:
    """With one byte changed, or the file cut there, the broker reports the damage, or starts with all frames."""
    chosen = random.Random(1).sample(list(cases(journal)), CASES)
    ends, wrong = run(journal, chosen, was_stopped(journal))
    assert wrong == []
    assert ends["refused"] > CASES // 2
    assert ends["whole"] > 0


def test_what_the_broker_refuses_the_tools_find(journal: Path, tmp_path: Path) -> None:
    """`sluice store check` finds the damage that makes a start fail, and no tool ends with a traceback."""
    whole = frames(shutil.copytree(journal, tmp_path / "whole"))
    rng = random.Random(2)
    head = [Case("segment-1", at, 0xFF) for at in (0, 9, 13, 36, 300, 512, 520, 540)]
    for number, case in enumerate([*head, *rng.sample(list(cases(journal)), 15)]):
        copy = shutil.copytree(journal, tmp_path / f"copy-{number}")
        case.do(copy)
        commands = [("check", copy), ("stats", copy), ("salvage", copy, tmp_path / f"rest-{number}")]
        results = [CliRunner().invoke(app, ("store", *map(str, command))) for command in commands]
        assert all(isinstance(result.exception, SystemExit | None) for result in results), case
        if judge(copy, whole, was_stopped(journal)) == "refused":
            assert results[0].exit_code == 1, (case, results[0].output)
