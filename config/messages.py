"""Turns validation errors into messages that say what was found and what was expected."""

from collections.abc import Mapping
from typing import Any, get_origin

from pydantic_core import ErrorDetails

from config.expected import BOUNDS, KINDS, expected
from config.layers import Layer, Path
from config.schema import (
    ENV_PREFIX,
    field_at,
    holds_secrets,
    section_at,
    suggest_key,
    suggest_variable,
    variable,
    written,
)
from config.units import found


def explain(error: ErrorDetails, raw: Layer) -> str:
    """What is wrong with the value at the error's place, and what was expected."""
    path, kind = error["loc"], error["type"]
    if kind == "extra_forbidden":
        return _unknown(path, raw)
    if kind in {"missing", "value_error"}:
        return expected(kind, error.get("ctx", {}))
    value = _raw_value(raw.values, path)
    shown = "something else" if isinstance(value, str | int | float) and holds_secrets(path) else found(value)
    return f"found {shown}: {_expected(error, raw)}"


def _expected(error: ErrorDetails, raw: Layer) -> str:
    """What was expected instead of a value of the wrong kind or out of bounds."""
    path, kind, context = error["loc"], error["type"], error.get("ctx", {})
    if kind == "too_short":
        field = field_at(path)
        or_none = "" if field is not None and field.is_required() else ", or leave the key out for the default"
        return f"write at least one{or_none}"
    if kind in BOUNDS:
        name, bound = BOUNDS[kind]
        return f"write {bound} {written(path, context[name])}"
    if kind == "model_type":
        section = section_at(path)
        return f"write keys under it ({', '.join(section.model_fields) if section is not None else ''})"
    return expected(kind, context) + (_as_json(path, raw) if kind in KINDS else "")


def _unknown(path: Path, raw: Layer) -> str:
    origin = raw.origin(path)
    if origin is not None and origin.source.startswith(ENV_PREFIX):
        return f"unknown variable; {suggest_variable(origin.source)}"
    return f"unknown key; {suggest_key(path)}"


def _as_json(path: Path, raw: Layer) -> str:
    """Hint for lists from a variable: they are JSON."""
    origin, field = raw.origin(path), field_at(path)
    is_list = field is not None and get_origin(field.annotation) is list
    if not is_list or origin is None or not origin.source.startswith(ENV_PREFIX):
        return ""
    return f" as JSON in {variable(path[:1])}"


def _raw_value(values: Mapping[str, Any], path: Path) -> object:
    """The value as written; the validator may have converted its own already."""
    value: Any = values
    for key in path:
        value = value[key]
    return value
