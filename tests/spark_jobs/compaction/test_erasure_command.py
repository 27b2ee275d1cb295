"""`sluice compact --keep`, `--drop` and `--forget`: what they refuse, and what they say."""

import time
from datetime import timedelta
from pathlib import Path

import pytest

from spark_jobs import cli
from tests.support.spark.compacting import tables
from tests.support.spark.erasing import SECRET, Stored
from tests.support.spark.metrics_files import NOON

pytestmark = pytest.mark.once


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The error message of `compact`."""
    assert cli.main(["compact", "--quiet", *map(str, arguments)]) == cli.WRONG_INPUT
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    return said


def test_what_will_not_do_is_said(capsys: pytest.CaptureFixture[str], stored: Stored, tmp_path: Path) -> None:
    """Each message has what would be right, and the store is as before."""
    raw, store = stored
    before = tables(store)
    both, only = ("--metrics", raw, "--store", store), ("--store", store)
    for wrong in ("90", "0d", "90 days", "-1d", "", "infinity"):
        assert f"--keep {wrong}: expected a whole number with h or d, such as 2160h or 90d" in refused(
            capsys, *both, f"--keep={wrong}"
        )
    assert "--metrics: is missing; expected the folder" in refused(capsys, *only)
    for part in ((), ("--from", "2026-11-21"), ("--to", "2026-11-22")):
        assert "--drop: needs --from and --to" in refused(capsys, *only, "--drop", *part)
    day = ("--from", "2026-11-21", "--to", "2026-11-22")
    assert "--drop: does nothing else, and reads no metrics; leave --metrics out" in refused(
        capsys, *both, "--drop", *day
    )
    assert "leave --rebuild out" in refused(capsys, *only, "--drop", *day, "--rebuild")
    assert "--from 2026-11-21T12:30: is within an hour; --drop drops whole hours" in refused(
        capsys, *only, "--drop", "--from", "2026-11-21T12:30", "--to", "2026-11-22"
    )
    assert "the range is empty" in refused(capsys, *only, "--drop", "--from", "2026-11-22", "--to", "2026-11-21")
    told = refused(capsys, *only, "--drop", "--from", "2026-11-01", "--to", "2026-11-02")
    assert "no hours in the range 2026-11-01T00:00 to 2026-11-02T00:00 (UTC)" in told
    assert "holds 2026-11-21T12:00 to 2026-11-21T15:00" in told
    assert f"--forget nobody: {store} has no session of this client" in refused(capsys, *only, "--forget", "nobody")
    assert "--forget '': is empty; expected a client id" in refused(capsys, *only, "--forget", "")
    assert "--forget: has bytes that are not UTF-8" in refused(capsys, *only, "--forget", "x\udcff")
    assert "leave --from out" in refused(capsys, *only, "--forget", SECRET, "--from", "2026-11-21")
    assert "is not a store" in refused(capsys, "--store", tmp_path / "none", "--forget", SECRET)
    assert "is not a store" in refused(capsys, "--store", tmp_path / "none", "--drop", *day)
    assert tables(store) == before


def test_the_commands_say_what_they_did(capsys: pytest.CaptureFixture[str], stored: Stored) -> None:
    """Hours, rows, bytes, and where a client still is."""
    raw, store = stored
    asked = ["compact", "--quiet", "--store", str(store)]
    age = int((time.time() - (NOON + timedelta(hours=1)).timestamp()) // 3600)
    assert cli.main([*asked, "--metrics", str(raw), "--keep", f"{age}h"]) == cli.OK
    assert "; 1 hour dropped, " in capsys.readouterr().out
    assert cli.main([*asked, "--drop", "--from", "2026-11-21T13:00", "--to", "2026-11-21T14:00"]) == cli.OK
    assert capsys.readouterr().out.startswith(f"{store}: 1 hour dropped, ")
    assert cli.main([*asked, "--forget", SECRET]) == cli.OK
    said = capsys.readouterr().out
    assert said.startswith(f"{store}: client {SECRET} forgotten, 2 rows of 1 hour. ")
    assert "Metrics files still have them until the broker's metrics.keep deletes these" in said
