"""All storages behave the same: local folders and object stores."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.storage import Storage, StorageError, is_local, local_path, open_storage
from spark_jobs.storage.objects import ObjectStorage

pytestmark = pytest.mark.once

Open = Callable[[Path], Storage]


@pytest.fixture(params=["local", "object store"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty folder, opened by each kind of storage."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    return open_storage(str(folder)) if request.param == "local" else ObjectStorage(f"file://{folder}")


def content(storage: Storage, name: str) -> bytes:
    """The bytes of a file."""
    with storage.open(name) as file:
        return file.read()


def test_what_is_written_is_there(opened: Storage) -> None:
    """A written file is complete, replaces an earlier one, and is listed with its size."""
    opened.write("b/two", b"earlier")
    opened.write("b/two", b"\x00\xff" * 50_000)
    opened.write("a", b"")
    assert content(opened, "b/two") == b"\x00\xff" * 50_000
    assert content(opened, "a") == b""
    entries = {entry.name: entry for entry in opened.files()}
    assert [(name, entry.size) for name, entry in entries.items()] == [("a", 0), ("b/two", 100_000)]
    assert entries["b/two"].folder == "b"
    assert entries["a"].modified_us > 1_700_000_000_000_000
    assert opened.exists("b/two")
    assert opened.is_folder("b")
    assert not opened.is_folder("a")
    assert opened.folders() == ["b"]
    assert opened.folders("nowhere") == []


def test_hidden_folders_are_not_listed(opened: Storage) -> None:
    """Folders whose name begins with _ or a dot are unfinished and not listed."""
    for name in ("_new/x", ".old/x", "date=1/_half", "date=1/whole"):
        opened.write(name, b"x")
    assert [entry.name for entry in opened.files()] == ["date=1/_half", "date=1/whole"]


def test_what_goes_while_it_is_listed_is_not_there(opened: Storage, tmp_path: Path) -> None:
    """A file or folder that a running broker deletes during the listing is skipped."""
    for name in ("a/1", "b/2", "c/3", "d", "e"):
        opened.write(name, b"x")
    found = opened.files()
    assert next(found).name == "a/1"
    shutil.rmtree(tmp_path / "a folder" / "b")
    (tmp_path / "a folder" / "d").unlink()
    at_once = isinstance(opened, ObjectStorage)  # it lists all files of a folder at once
    assert [entry.name for entry in found] == ["c/3", *(["d"] if at_once else []), "e"]


def test_links_that_lead_nowhere_or_back(tmp_path: Path) -> None:
    """A broken link is listed, and opening it reports the reason; loops of links end."""
    opened = open_storage(str(tmp_path))
    opened.write("elsewhere/x", b"xyz")
    for link, target in {"broken": "nowhere", "ring": "ring", "date/up": "..", "date/other": "../elsewhere"}.items():
        (tmp_path / link).parent.mkdir(exist_ok=True)
        (tmp_path / link).symlink_to(target)
    assert [entry.name for entry in opened.files()] == ["broken", "date/other/x", "elsewhere/x", "ring"]
    with pytest.raises(StorageError, match=r"broken cannot be read: No such file"):
        opened.open("broken")
    with pytest.raises(StorageError, match=r"ring cannot be read: Too many levels of symbolic links"):
        opened.open("ring")


def test_removed(opened: Storage) -> None:
    """A folder is removed with its content; removing twice is allowed."""
    for name in ("deep/er/part", "other"):
        opened.write(name, b"1")
    opened.remove("deep")
    opened.remove("deep")
    assert [entry.name for entry in opened.files()] == ["other"]


def test_footers_are_read_from_anywhere(opened: Storage) -> None:
    """pyarrow reads a Parquet file's footer through the storage."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": range(100_000)}), sink)
    opened.write("x.parquet", sink.getvalue().to_pybytes())
    with opened.open("x.parquet") as file, pq.ParquetFile(file) as parquet:
        assert parquet.metadata.num_rows == 100_000
        assert parquet.read().column("x").to_pylist()[-1] == 99_999


def test_errors_name_the_place(opened: Storage) -> None:
    """The message names the file that cannot be read, and the reason."""
    with pytest.raises(StorageError, match=r"missing"):
        content(opened, "missing")
    assert list(opened.files("nowhere")) == []
    opened.write("file", b"x")
    with pytest.raises(StorageError, match=r"file"):
        opened.write("file/below", b"x")


def test_uris() -> None:
    """Plain paths and file: URIs are local; others are object stores that the package deltalake knows."""
    assert is_local("/data")
    assert is_local("c:file")  # a name with a colon is a plain path
    assert not is_local("hdfs://name/x")
    assert local_path("file:/a%20b") == local_path("file:///a%20b") == Path("/a b")
    with pytest.raises(StorageError, match="names the host other"):
        local_path("file://other/x")
    with pytest.raises(StorageError, match="nosuch://x/y cannot be reached: Unknown scheme: nosuch"):
        open_storage("nosuch://x/y")
    with pytest.raises(StorageError, match=r"hdfs://127.0.0.1:1/x cannot be looked at: .*Connection refused"):
        open_storage("hdfs://127.0.0.1:1/x").exists()
