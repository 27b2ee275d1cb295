"""A file of rules (`authorization.rules_file`): YAML with the key `rules`, in the form of `authorization.rules`."""

from pathlib import Path as FilePath
from typing import Final

from pydantic import Field, ValidationError

from config import messages, yaml_file
from config.errors import ConfigError, Problem
from config.files import is_irregular
from config.layers import Layer, Origin, Path, dotted
from config.rule import Rule
from config.value_types import WRITTEN, Model

_SECTION: Final = "authorization"


class _File(Model):
    rules: list[Rule] = Field(default_factory=list)


def read_rules(path: FilePath) -> list[Rule]:
    """Read the rules of a file. Raises ConfigError with all mistakes.

    Without the key `rules` it is one, too: an editor that has just emptied the file must not allow everything.
    """
    if is_irregular(path):
        raise ConfigError([Problem("", str(path), None, "is not a regular file")])
    layer, problems, _ = yaml_file.read(path)
    if not layer.values and not problems:
        problems.append(Problem("", str(path), None, "is empty: write `rules: []` if there are to be none"))
    rules: list[Rule] = []
    try:
        rules = _File.model_validate(layer.values, context={WRITTEN: True}).rules
    except ValidationError as error:
        # Mistakes are explained as if the rules were in the configuration itself.
        raw = Layer({_SECTION: layer.values}, {(_SECTION, *at): origin for at, origin in layer.origins.items()})
        for details in error.errors(include_url=False):
            details["loc"] = (_SECTION, *details["loc"])
            problems.append(_problem(details["loc"], messages.explain(details, raw), raw, path))
    if problems:
        raise ConfigError(problems)
    return rules


def _problem(at: Path, message: str, raw: Layer, path: FilePath) -> Problem:
    origin = raw.origin(at) or Origin(str(path))
    return Problem(dotted(at[1:]), origin.source, origin.line, message)
