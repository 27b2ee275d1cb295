"""Which journals a directory has, and for how many workers."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from broker.cli.main import app
from broker.resharding.layout import layout_of

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("made", "workers", "fits"),
    [
        ([], 4, True),
        ([], 1, True),
        (["cell-1", "cell-2"], 2, True),
        (["cell-1", "cell-2"], 4, False),
        (["cell-1", "cell-3"], 3, False),
        (["cell-1", "cell-2"], 1, False),
        (["cell-x", "other"], 3, True),
        (["journal.lock"], 2, False),
        (["journal.sqlite"], 2, False),
        (["segment-1"], 2, False),
        (["journal.lock"], 1, True),
        (["cell-1", "cell-2", "resharding"], 2, False),
        (["resharding"], 1, False),
    ],
)
def test_what_fits(tmp_path: Path, made: list[str], workers: int, fits: bool) -> None:
    """Another number of workers than the journals have, or a change that has not ended, needs work before the start."""
    for name in made:
        (tmp_path / name).mkdir()
    assert layout_of(tmp_path).fits(workers) is fits


def test_no_directory(tmp_path: Path) -> None:
    """Any number of workers can begin."""
    assert layout_of(None).fits(3)
    assert layout_of(tmp_path / "new").fits(1)
    assert layout_of(tmp_path / "new").workers == 0


@pytest.mark.parametrize(
    ("made", "workers", "said"),
    [
        (["cell-1", "cell-2"], 3, "it has the journals of 2 workers: a start moves what is in them to 3"),
        (["journal.lock"], 2, "it has the journal of one worker: a start moves what is in them to 2"),
        (["cell-1", "cell-2"], 1, "a start moves what is in them to one"),
        (["cell-1", "resharding"], 1, "a start moves what is in them to one"),
        (["cell-1", "cell-2", "resharding"], 2, ""),
        (["cell-1", "resharding/switch"], 1, "a start ends that first"),
        (["cell-1", "segment-1"], 1, "a start refuses that"),
        ([], 2, ""),
    ],
)
def test_what_config_check_says(tmp_path: Path, made: list[str], workers: int, said: str) -> None:
    """What a start would do with the journals that are there."""
    for name in made:
        (tmp_path / "journal" / name).mkdir(parents=True)
    file = tmp_path / "sluice.yaml"
    file.write_text(f"cluster: {{workers: {workers}}}\npersistence: {{directory: {tmp_path / 'journal'}}}\n")
    result = CliRunner().invoke(app, ("config", "check", str(file)))
    assert result.exit_code == 0
    assert said in result.output
    assert ("a start" in result.output) == bool(said)
