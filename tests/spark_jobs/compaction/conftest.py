"""A store of three hours with two clients."""

import shutil
from pathlib import Path

import pytest

from tests.support.spark.compacting import NEXT, Run, minutes
from tests.support.spark.erasing import HOURS, OTHER, SECRET, Stored, write_raw
from tests.support.spark.metrics_files import write_file


@pytest.fixture(scope="session")
def _stored(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    write_raw(folder / "raw", dict(enumerate(HOURS)), OTHER, SECRET)
    run(folder / "raw", folder / "store")
    write_file(folder / "raw" / NEXT / "late.parquet", minutes(69, client=SECRET))
    run(folder / "raw", folder / "store")  # replaced files have the client too
    return folder


@pytest.fixture
def stored(_stored: Path, tmp_path: Path) -> Stored:
    """Copies of one store of three hours with two clients, and of its metrics."""
    shutil.copytree(_stored, tmp_path, dirs_exist_ok=True)
    return tmp_path / "raw", tmp_path / "store"
