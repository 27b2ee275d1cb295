"""session/FLOW-CONTROL.md is complete, and names nothing that is not there: rules, keys, columns, events, files."""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from pydantic import BaseModel

import config
from config.address_settings import AddressSettings
from config.drop_events import DropEvents
from config.persistence import Persistence
from config.quota import Quota
from config.session import Priority, Session, SlowConsumer

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "session" / "FLOW-CONTROL.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")

CODE = ("session", "broker", "protocol", "config")
RULES = [*range(1, 17), *range(20, 40)]
KEYS: list[tuple[type[BaseModel], str]] = [
    (Session, ""),
    (SlowConsumer, "slow_consumer."),
    (Priority, ""),
    (AddressSettings, ""),
    (DropEvents, ""),
    (Persistence, ""),
    (Quota, ""),
]


def mentioned(*folders: str) -> set[int]:
    """The rules that the files of these folders name."""
    found: set[int] = set()
    for folder in folders:
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {".py", ".yaml"} and file != Path(__file__):
                found |= {int(number) for number in re.findall(r"\bFC-(\d+)\b", file.read_text(encoding="utf-8"))}
    return found


def keys() -> Iterator[str]:
    """What a configuration can say about flow control, as the document writes it."""
    for model, prefix in KEYS:
        for name in model.model_fields:
            if name != "slow_consumer":  # a section, whose keys are here
                yield prefix + name


def anchor(heading: str) -> str:
    """What a link to a heading ends in."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_rules_are_explained() -> None:
    """Each rule, FC-1 to FC-38, has a paragraph of its own, and no other does."""
    assert [int(number) for number in re.findall(r"^\*\*FC-(\d+)\b", TEXT, re.MULTILINE)] == RULES


def test_rules_are_kept() -> None:
    """Each rule is named where the code keeps it."""
    assert mentioned(*CODE) == set(RULES)


def test_rules_are_shown() -> None:
    """Each rule is named by a test."""
    assert mentioned("tests") == set(RULES)


@pytest.mark.parametrize("key", list(keys()))
def test_keys(key: str) -> None:
    """Each key of flow control is explained where the document lists them."""
    assert f"`{key}`" in part("The keys")


def test_columns() -> None:
    """The metric columns that the document names are those that are exported; `*` stands for each QoS."""
    schema = json.loads((ROOT / "spark_jobs" / "metrics_schema.json").read_text(encoding="utf-8"))
    columns = {field["name"] for field in schema["fields"]}
    table = part("Where to see it").partition("| about |")[2].partition("\n\n")[0]
    for name in re.findall(r"`([^`]+)`", table):
        assert any(fnmatchcase(column, name) for column in columns), name


def test_events() -> None:
    """The log events that the document names are written somewhere."""
    code = "".join(file.read_text(encoding="utf-8") for name in CODE[:2] for file in (ROOT / name).rglob("*.py"))
    table = part("Where to see it").partition("| event |")[2].partition("\n\n")[0]
    for line in table.splitlines():
        for event in re.findall(r"`([^`]+)`", line.split("|")[1] if line.startswith("|") else ""):
            assert f'"{event}"' in code, event


def part(heading: str) -> str:
    """What stands below a heading."""
    return TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("example", re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
def test_examples(example: str, tmp_path: Path) -> None:
    """Each example is a configuration without mistakes."""
    file = tmp_path / "sluice.yaml"
    file.write_text(example, encoding="utf-8")
    assert config.check(file) == []


def test_links() -> None:
    """Each link within the repository leads somewhere: to a file that exists, or a heading of the document."""
    headings = {anchor(heading) for heading in re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)}
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif "://" not in target:
            assert (DOCUMENT.parent / target).exists(), target
