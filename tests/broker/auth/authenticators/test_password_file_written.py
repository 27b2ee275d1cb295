"""A file of users that somebody writes slowly, while a broker follows it."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.auth import watched_file
from broker.auth.authenticators import users_file
from broker.auth.authenticators.hashing import HashingPool
from broker.auth.authenticators.password_file import PasswordFile
from broker.auth.authenticators.users_file import Contents
from tests.support.broker.logins import PASSWORDS, write_users
from tests.support.waiting import until

ANN = PASSWORDS["ann"]


async def test_file_that_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes the file slowly has nobody disconnected."""
    if not watched_file.__file__.endswith(".py"):
        return  # what is compiled has constants
    monkeypatch.setattr(watched_file, "INTERVAL", 0.01)
    path = write_users(tmp_path / "users", {"ann": ANN, "ben": PASSWORDS["ben"]})
    whole = path.read_text()
    pieces: list[str] = []
    read = users_file.read

    def read_and_go_on(path: Path) -> Contents:
        contents = read(path)
        if pieces:
            path.write_text(path.read_text() + pieces.pop(0))
        return contents

    monkeypatch.setattr(users_file, "read", read_and_go_on)
    pool = HashingPool()
    users = PasswordFile(path, pool)
    changed: list[set[str]] = []
    users.on_changed = changed.append
    size = len(whole) // 4
    pieces += [whole[size : 2 * size], whole[2 * size : 3 * size], whole[3 * size :] + "# the end\n"]
    path.write_text(whole[:size])
    with capture_logs() as logged:
        watching = asyncio.ensure_future(users.file.run())
        await until(lambda: "file_read" in [event["event"] for event in logged])
        watching.cancel()
    pool.close()
    assert (pieces, changed) == ([], [])
