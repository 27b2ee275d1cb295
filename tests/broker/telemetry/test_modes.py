"""Who may read the metrics on disk."""

import os
from pathlib import Path
from stat import S_IMODE

import pytest
from structlog.testing import capture_logs

from tests.support.broker.exporting import Bench

NOBODY = 65_534

pytestmark = pytest.mark.once


def modes(bench: Bench) -> tuple[set[str], set[str]]:
    """The modes of all folders, and of all files, after an export that waits and one that is filed."""
    bench.client("c")
    bench.export(everything=True)
    bench.keep(everything=True)
    found = [bench.directory, *bench.directory.rglob("*")]
    assert {path.suffix for path in found if path.is_file()} == {".parquet", ".arrow"}
    folders = {f"{S_IMODE(path.stat().st_mode):o}" for path in found if path.is_dir()}
    return folders, {f"{S_IMODE(path.stat().st_mode):o}" for path in found if path.is_file()}


def test_only_the_broker_reads_its_metrics(bench: Bench) -> None:
    """What the broker makes can be read by its own user only, whatever the umask of most systems allows."""
    assert modes(bench) == ({"700"}, {"600"})


@pytest.mark.parametrize(
    ("mode", "folders", "files"), [(0o755, "750", "640"), (0o750, "750", "640"), (0o710, "710", "600")]
)
def test_the_group_of_the_directory_reads_them(bench: Bench, mode: int, folders: str, files: str) -> None:
    """Below a directory that its group may read, the group may read all; other users never."""
    bench.directory.mkdir(mode)
    bench.directory.chmod(mode)
    assert modes(bench) == ({f"{mode:o}", folders}, {files})


def test_files_are_made_in_a_folder_that_is_there(bench: Bench, tmp_path: Path) -> None:
    """Folders above the directory get the mode that the umask gives: they are not the broker's."""
    bench.directory = tmp_path / "a" / "b"
    bench.exporter = bench.another_life()
    modes(bench)
    assert S_IMODE((tmp_path / "a").stat().st_mode) & 0o055 == 0o055


@pytest.mark.parametrize("mode", [0o750, 0o2750])
def test_a_group_that_is_not_the_brokers_own(bench: Bench, mode: int) -> None:
    """All that is made belongs to the group of the directory, which may read it, also if the umask is strict."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to a foreign group")
    bench.directory.mkdir()
    os.chown(bench.directory, -1, NOBODY)
    bench.directory.chmod(mode)
    before = os.umask(0o027)
    try:
        found = modes(bench)
    finally:
        os.umask(before)
    assert found == ({f"{mode:o}"}, {"640"})
    assert {path.stat().st_gid for path in bench.directory.rglob("*")} == {NOBODY}


def test_a_group_that_cannot_be_given(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be given to the group of the directory is closed to all groups, and the log says it once."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to a foreign group")
    bench.directory.mkdir()
    os.chown(bench.directory, -1, NOBODY)
    bench.directory.chmod(0o750)

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refused)
    with capture_logs() as logged:
        assert modes(bench) == ({"750", "700"}, {"600"})
    (warning,) = (event for event in logged if event["event"] == "metrics_not_shared")
    said = f"group {NOBODY} may read {bench.directory}, but not {bench.directory}/_pending: add the broker's user to it"
    assert warning["detail"].startswith(said)
