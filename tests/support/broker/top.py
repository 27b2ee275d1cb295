"""Runs `sluice top` without a terminal, and gives it answers of a broker."""

import os
from typing import Any

from typer.testing import CliRunner

from broker.admin.sessions import SessionListing
from broker.cli.main import app


def invoke(*arguments: object, **env: str) -> tuple[int, str, str]:
    """Run `sluice top` in this process, where there is no terminal: status, standard output, standard error."""
    clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith("SLUICE_")}
    result = CliRunner().invoke(app, ["top", *map(str, arguments)], env={**clean, **env})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def answer(*rows: list[Any], clock_us: int = 0, sort: str = "mqueue") -> dict[str, Any]:
    """What a broker answers, with these rows."""
    return {
        "version": 1,
        "command": "sessions",
        "sort": sort,
        "broker": "node",
        "total": 1000,
        "time_us": 0,
        "clock_us": clock_us,
        "columns": SessionListing.columns,
        "rows": list(rows),
    }


def row(name: str = "a", sent: int = 0, full_us: int = 0, started_us: int = 0) -> list[Any]:
    """One row of an answer."""
    return [name, "tcp", 5, True, False, 0, 0, 0, 1, 32, full_us, sent, 0, 0, started_us, 0]
