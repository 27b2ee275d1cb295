"""session/FLOW-CONTROL.md is complete: every rule, in the code and shown by a test, every key, and no dead link."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

import config
from config.address_settings import AddressSettings, Paging
from config.session import Priority, Session, SlowConsumer

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "session" / "FLOW-CONTROL.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")

RULES = [*range(1, 16), *range(20, 27)]
KEYS: list[tuple[type[BaseModel], str]] = [
    (Session, ""),
    (SlowConsumer, "slow_consumer."),
    (Priority, ""),
    (AddressSettings, ""),
    (Paging, ""),
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
    """Each rule, FC-1 to FC-26, has a paragraph of its own, and no other does."""
    assert [int(number) for number in re.findall(r"^\*\*FC-(\d+)\b", TEXT, re.MULTILINE)] == RULES


def test_rules_are_kept() -> None:
    """Each rule, FC-1 to FC-26, is named where the code keeps it."""
    assert mentioned("session", "broker", "protocol", "config") == set(RULES)


def test_rules_are_shown() -> None:
    """Each rule, FC-1 to FC-26, is named by a test."""
    assert mentioned("tests") == set(RULES)


@pytest.mark.parametrize("key", list(keys()))
def test_keys(key: str) -> None:
    """Each key of flow control has a line in the document's tables."""
    assert f"`{key}`" in table_of_knobs()


def table_of_knobs() -> str:
    """The part of the document that lists them."""
    return TEXT.partition("\n## The knobs\n")[2].partition("\n## ")[0]


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
