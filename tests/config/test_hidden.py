"""Messages about keys beside which secrets are written: they do not quote what may be one."""

import json
from pathlib import Path

import pytest

from config.load import check

pytestmark = pytest.mark.once

SECRET = "s3cret"
HTTP = {"url": "https://login.example.com/mqtt"}
POSTGRES = {"host": "localhost", "database": "d", "user": "u", "query": "select $1"}
JWT = {"algorithms": ["HS256"]}


@pytest.mark.parametrize(
    "sections",
    [
        {"authentication": {"http": HTTP | {"header": f"Authorization: Bearer {SECRET}"}}},
        {"authentication": {"http": HTTP | {"header": f"Authorization: Bearer {SECRET * 20}"}}},
        {"authentication": {"http": HTTP | {"header_file": f"Bearer {SECRET}"}}},
        {"authentication": {"http": HTTP | {"header_file": SECRET}}},
        {"authentication": {"http": HTTP | {"header_file": SECRET * 100}}},
        {"authentication": {"http": HTTP | {"cafile": f"https://u:{SECRET}@h/ca.pem"}}},
        {"authentication": {"jwt": JWT | {"key_file": SECRET}}},
        {"authentication": {"jwt": JWT | {"key_file": f"{SECRET}\n"}}},
        {"authentication": {"jwt": JWT | {"jwks_url": f"http://u:{SECRET}@h/keys"}}},
        {"authentication": {"postgres": POSTGRES | {"host": f"postgres://u:{SECRET}@h/d"}}},
        {"authentication": {"postgres": POSTGRES | {"host": f"u:{SECRET}@h"}}},
        {"authentication": {"postgres": POSTGRES | {"password_file": SECRET}}},
        {"authentication": {"postgres": POSTGRES | {"port": f"postgres://u:{SECRET}@h:5432"}}},
        {"authentication": {"password_file": f"ann:{SECRET}"}},
        {"authentication": {"password_file": f"$argon2id$v=19$m=8,t=1,p=1$c2FsdA${SECRET}"}},
        {"authentication": {"scram": [{"username": "a", "salt": SECRET, "stored_key": SECRET, "server_key": SECRET}]}},
        {"admin": {"tokens": [{"name": f"a {SECRET}", "sha256": SECRET}]}},
        {"admin": {"tokens": [{"name": "a", "role": SECRET, "sha256": SECRET}]}},
    ],
)
def test_not_quoted(tmp_path: Path, sections: dict[str, object]) -> None:
    """A value that may be a secret is a mistake with its key and line, but not quoted."""
    file = tmp_path / "sluice.yaml"
    file.write_text(json.dumps(sections))
    problems = check(file)
    assert problems
    assert SECRET not in "".join(problem.message for problem in problems)


def test_quoted(tmp_path: Path) -> None:
    """What is not secret is quoted: names of files that do not exist, and what is wrong at other keys."""
    file = tmp_path / "sluice.yaml"
    users, header = "passwords/users.txt", str(tmp_path / "header")
    own = {"password_file": users, "http": HTTP | {"header_file": header}}
    file.write_text(json.dumps({"authentication": own, "mqtt": {"max_connections": "many"}}))
    text = "".join(problem.message for problem in check(file))
    assert all(repr(each) in text for each in (users, header, "many"))
