"""A store of the earlier format is read once and converted."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.errors import ReportError
from spark_jobs.metrics import CONNECTED_US
from spark_jobs.store.schema import DATASETS, TIMES, earlier_name
from spark_jobs.store.store import Store, open_store
from spark_jobs.store.taken import hour_name
from tests.support.spark.compacting import HOUR, Run, minutes, rows_of
from tests.support.spark.metrics_files import SCHEMA, earlier_histogram, write_file

pytestmark = pytest.mark.once


def write_old(store: Store, folder: Path) -> None:
    """Write a store in the earlier format, as a version of Sluice before the latest columns did."""
    latest = {field["name"] for field in SCHEMA["fields"] if field.get("since", 1) >= 3} - {CONNECTED_US}
    hours = {}
    for ledger in store.ledgers():
        name = hour_name(ledger.hour_us)
        hours[name] = f"date={name[:10]}/hour={name[11:]}/0123456789abcdef"
        place = folder / hours[name]
        for dataset, columns in DATASETS.items():
            for number, (_, rows) in enumerate(store.snapshot.by_hour(dataset, ledger.hour_us, ledger.hour_us + 1)):
                plain = {c.name: rows[TIMES[c.name]].cast(pa.int64()) for c in columns if c.name in TIMES}
                plain |= {c.name: rows[c.name] for c in columns if c.name not in TIMES and c.name not in latest}
                for c in columns:
                    if (earlier := earlier_name(c.name)) is not None:
                        plain.pop(c.name, None)
                        plain[earlier] = pa.array(map(earlier_histogram, rows[c.name].to_pylist()), rows[c.name].type)
                (place / dataset).mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.table(plain), place / dataset / f"part-{number:05}.parquet")
            (place / dataset).mkdir(exist_ok=True)
        files = [asdict(file) for file in ledger.files]
        (place / "ledger.json").write_text(json.dumps({"hour_us": ledger.hour_us, "files": files, "notes": []}))
    skipped = {"hour_us": None, "files": [asdict(file) for file in store.skipped()], "notes": []}
    (folder / "ledgers").mkdir()
    (folder / "ledgers" / "1.json").write_text(json.dumps(skipped))
    manifest = {"format": 1, "slot_us": store.slot_us, "watermarks": store.watermarks, "hours": hours}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "ledger": "ledgers/1.json"}))


def octaves(folder: Path) -> list[object]:
    """The content of a store, with histograms as an earlier version counted."""
    store = open_store(str(folder))
    rows = [row for part in (store.sessions(), store.timeline(), store.starvation()) for row in rows_of(part)]
    return [
        {name: earlier_histogram(value) if name.endswith("_buckets") else value for name, value in row.items()}
        for row in rows
    ]


@pytest.fixture
def old(run: Run, two_hours: tuple[Path, Path], tmp_path: Path) -> Path:
    """An old store with two hours and a skipped file."""
    raw, store = two_hours
    (raw / HOUR / "empty.parquet").touch()
    run(raw, store, idle=True)
    folder = tmp_path / "old"
    write_old(open_store(str(store)), folder)
    return folder


def test_an_old_store_is_converted_with_all_that_it_knows(
    run: Run, two_hours: tuple[Path, Path], old: Path, tmp_path: Path
) -> None:
    """Rows, files, skipped files and watermarks are kept; it can be updated then, and its old files are removed."""
    raw, new = two_hours
    with pytest.raises(ReportError, match=r"is a store of an earlier version of Sluice; convert it: sluice compact"):
        open_store(str(old))
    manifest = shutil.copy(old / "manifest.json", tmp_path / "manifest")
    assert run(raw, old).hours == 0
    assert octaves(old) == octaves(new)
    before, after = open_store(str(new)), open_store(str(old))
    assert (after.ledgers(), after.skipped()) == (before.ledgers(), before.skipped())
    assert (after.watermarks, after.slot_us) == (before.watermarks, before.slot_us)
    assert not {"manifest.json", "ledgers"} & {path.name for path in old.iterdir()}
    assert list(old.glob("date=*")) == []
    write_file(raw / HOUR / "c.parquet", minutes(3))
    shutil.copy(manifest, old / "manifest.json")  # of a conversion that ended after its commit
    assert run(raw, old).hours == 1
    assert sorted(made["rows"] for made in rows_of(open_store(str(old)).sessions())) == [1, 3]


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 9}'])
def test_a_damaged_old_store_is_named(run: Run, two_hours: tuple[Path, Path], tmp_path: Path, text: str) -> None:
    """The message says which file, and nothing is changed."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "manifest.json").write_text(text)
    with pytest.raises(ReportError, match=r"old.*: is (damaged|a store of format 9)"):
        run(two_hours[0], tmp_path / "old")
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["manifest.json"]
