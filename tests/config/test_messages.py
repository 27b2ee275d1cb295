"""Messages about wrong values, for every key and kind of mistake: what is wrong, where, and what would be right."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel
from pydantic_core._pydantic_core import list_all_errors

from config.errors import ConfigError, Problem
from config.expected import OTHER
from config.load import load
from config.models import Config
from config.rules_file import read_rules
from config.schema import section_of
from tests.config.test_models import BASE, REFUSED

pytestmark = pytest.mark.once

VALUES: list[Any] = [None, True, -1, 1.5, 10**19, "", "a b", "x" * 2_000, [], [5], [""], [[]], [{}], {}, {"odd": 1}]
"""Values of all kinds; for most keys most of them are wrong."""

FOREIGN = {
    template.split("{")[0].strip() for template in (str(each["message_template_python"]) for each in list_all_errors())
} - {""}
"""How the messages of pydantic begin, up to the first value in them."""

RIGHT = re.compile(
    r"\bwrite\b|\bset\b|\bleave\b|\bkeep\b|\bname the file\b|did you mean|the keys here are|expected|^there is no|"
    r"cannot be read: |holds no|give each|are those of|needs|installed are"
)
"""Words that say what would be right, or which file cannot be used and why."""


def fields(model: type[BaseModel], path: tuple[str | int, ...] = ()) -> Iterator[tuple[type[BaseModel], Any]]:
    """The path of every key, in every place where its model may be."""
    for name, field in model.model_fields.items():
        here = (*path, name)
        yield model, here
        section = section_of(field.annotation)
        if section is not None:
            is_list = any(get_origin(each) is list for each in (field.annotation, *get_args(field.annotation)))
            yield from fields(section, (*here, 0) if is_list else here)


FIELDS = list(fields(Config))


def problems(path: Path, model: type[BaseModel], at: tuple[str | int, ...], value: object) -> list[Problem]:
    """The mistakes in a file that has one wrong value."""
    tree: Any = BASE.get(model, {}) | {at[-1]: value}
    for key in reversed(at[:-1]):
        tree = [tree] if isinstance(key, int) else {key: tree}
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    try:
        load(path, environ={})
    except ConfigError as error:
        return error.problems
    return []


@pytest.mark.parametrize("section", Config.model_fields)
def test_every_mistake_in_our_words(section: str, tmp_path: Path) -> None:
    """Each value of each kind at each key is refused in our words: none of pydantic's, and with what would be right."""
    path = tmp_path / "sluice.yaml"
    for model, at in FIELDS:
        if at[0] != section:
            continue
        own = [value for refused, key, values in REFUSED if (refused, key) == (model, at[-1]) for value in values]
        for value in [*VALUES, *(each for each in own if isinstance(each, str | int))]:
            for problem in problems(path, model, at, value):
                shown = (at, value if not isinstance(value, str) else value[:20], problem.message[:300])
                assert not any(words in problem.message for words in FOREIGN), shown
                assert not re.search(r"pydantic|typing|<class|write $", problem.message), shown
                assert RIGHT.search(problem.message), shown
                assert OTHER not in problem.message, shown
                assert len(problem.message) < 1_000, shown
                assert problem.source, shown


def test_rules_file_in_our_words(tmp_path: Path) -> None:
    """Mistakes in a file of rules are told in the same words, with the line."""
    path = tmp_path / "rules.yaml"
    path.write_text("rules:\n- {permit: perhaps, topics: [a], qos: [x]}\n")
    with pytest.raises(ConfigError) as caught:
        read_rules(path)
    assert [str(each) for each in caught.value.problems] == [
        f"{path}:2: rules[0].permit: found 'perhaps': write allow or deny",
        f"{path}:2: rules[0].qos[0]: found 'x': write a whole number",
    ]
