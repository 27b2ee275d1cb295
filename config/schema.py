"""Facts about keys, by path: field, section, written form, suggestions for unknown keys."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from config.layers import Path, dotted
from config.models import Config
from config.other_names import OTHER_NAMES
from config.value_types import Written

ENV_PREFIX = "SLUICE_"
"""Prefix of all environment variables."""

ENV_NESTED = "__"
"""Separator of section and key in them."""


def section_of(annotation: object) -> type[BaseModel] | None:
    """The model in a field's type: itself, the items of a list, or the other half of `... | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        if (found := section_of(argument)) is not None:
            return found
    return None


def section_at(path: Path) -> type[BaseModel] | None:
    """The model whose keys are directly under `path`, or None if that is not a section."""
    section: type[BaseModel] | None = Config
    for key in path:
        if section is None:
            return None
        if isinstance(key, str):
            field = section.model_fields.get(key)
            section = None if field is None else section_of(field.annotation)
    return section


def field_at(path: Path) -> FieldInfo | None:
    """The field that `path` names, or None if it names a list item or is unknown."""
    section = section_at(path[:-1])
    key = path[-1] if path else None
    return section.model_fields.get(key) if section is not None and isinstance(key, str) else None


def holds_secrets(path: Path) -> bool:
    """Whether the value at `path`, or any value under it, is secret."""
    field = field_at(path)
    if field is not None and section_of(field.annotation) is None:
        # A plugin's settings may hold some.
        return field.annotation is SecretStr or get_origin(field.annotation) is dict
    section = section_at(path)
    return section is not None and any(holds_secrets((*path, name)) for name in section.model_fields)


def written(path: Path, value: object) -> object:
    """The written form of a loaded value at `path`: `2h` for 7200.0, `infinity` for 0."""
    field = field_at(path)
    for mark in field.metadata if field is not None else ():
        if isinstance(mark, Written) and value is not None:
            return mark.format(value)
    return value


def known_keys(section: type[BaseModel] = Config, path: Path = ()) -> Iterator[Path]:
    """Every key outside lists, sections included: ("session",), ("session", "max_inflight"), ..."""
    for name, field in section.model_fields.items():
        yield (*path, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from known_keys(field.annotation, (*path, name))


def variable(path: Path) -> str:
    """The environment variable of a key: `SLUICE_SESSION__MAX_INFLIGHT`."""
    return ENV_PREFIX + ENV_NESTED.join(str(key).upper() for key in path)


def suggest_key(path: Path) -> str:
    """Suggest a known key for an unknown one, or list the keys."""
    section = section_at(path[:-1])
    siblings = list(section.model_fields) if section is not None else []
    key = str(path[-1]).replace("-", "_").lower()
    if (elsewhere := OTHER_NAMES.get(key)) is not None:
        return f"did you mean {_seen_from(path[:-1], elsewhere)}?"
    places = [dotted(known) for known in known_keys() if known[-1] == key]
    if close := get_close_matches(key, siblings, n=1, cutoff=0.75 if places else 0.6):  # a key elsewhere is no typo
        return f"did you mean {close[0]!r}?"
    if places:
        top = " at the top of the file" if places == [key] else ""
        return f"did you mean {' or '.join(places)}{top}?"
    return f"the keys here are {', '.join(siblings)}"


def _seen_from(section: Path, keys: str) -> str:
    """Keys relative to a section: in quotes if they are in it, else with their whole path."""
    here = dotted("[]" if isinstance(key, int) else key for key in section).replace(".[]", "[]")
    own = f"{here}." if here else ""
    shown = [repr(key.removeprefix(own)) if "." not in key.removeprefix(own) else key for key in keys.split(" or ")]
    return " or ".join(shown)


def suggest_variable(name: str) -> str:
    """Suggest a known variable for an unknown one, or explain the names."""
    names = [variable(path).removeprefix(ENV_PREFIX) for path in known_keys()]
    asked = name.upper().removeprefix(ENV_PREFIX)
    other = OTHER_NAMES.get(asked.rpartition(ENV_NESTED)[2].lower(), "")
    if other and "[" not in other:
        return f"did you mean {' or '.join(variable(tuple(key.split('.'))) for key in other.split(' or '))}?"
    close = [known for known in names if asked and known.endswith(ENV_NESTED + asked)]
    close = close or get_close_matches(asked, names, n=1, cutoff=0.75)
    if close:
        return f"did you mean {ENV_PREFIX}{close[0]}?"
    return f"names are like {variable(('session', 'max_inflight'))} for session.max_inflight"
