"""Runs `sluice top` without a terminal, and gives it answers of a broker."""

import os
from typing import Any

from typer.testing import CliRunner

from broker.admin.rows import SessionRow
from broker.cli.main import app
from tests.support.broker.admin import Row


def invoke(*arguments: object, **env: str) -> tuple[int, str, str]:
    """Run `sluice top` in this process, where there is no terminal: status, standard output, standard error."""
    clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith("SLUICE_")}
    result = CliRunner().invoke(app, ["top", *map(str, arguments)], env={**clean, **env})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def answer(*items: Row, clock_us: int = 0, sort: str = "mqueue") -> dict[str, Any]:
    """What a broker answers, with these sessions."""
    return {
        "what": "sessions",
        "sort": sort,
        "broker": "node",
        "total": 1000,
        "matched": 1000,
        "time_us": 0,
        "clock_us": clock_us,
        "next": None,
        "items": list(items),
    }


def row(name: str = "a", sent: int = 0, full_us: int = 0, started_us: int = 0) -> Row:
    """One session of an answer."""
    return SessionRow(
        client_id=name,
        listener="tcp",
        protocol_version=5,
        connected=True,
        waits_for="nothing",
        congested=False,
        mailbox_len=0,
        mqueue_len=0,
        mqueue_bytes=0,
        window_len=1,
        window_limit=32,
        window_full_us=full_us,
        received=0,
        received_bytes=0,
        offered=sent,
        sent=sent,
        acknowledged=0,
        dropped=0,
        started_us=started_us,
        paced_for_us=0,
    ).model_dump()
