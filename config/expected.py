"""What was expected instead of a value that a model refuses, in the words of all our errors."""

from collections.abc import Mapping
from typing import Any, Final

BOUNDS: Final = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
"""Kind of error -> the name of the bound in its context, and in words."""

KINDS: Final = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping (key: value)",
    "finite_number": "a finite value",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "int_type": "a whole number",
    "json_invalid": "JSON",
    "list_type": "a list",
    "model_attributes_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "path_type": "a path",
    "string_too_short": "at least one character",
    "string_type": "text",
    "too_short": "at least one",
}
"""Kind of error -> what to write."""

OTHER: Final = "write another value"
"""For kinds of errors that our models do not have."""


def expected(kind: str, context: Mapping[str, Any]) -> str:
    """What to do about an error of this kind; `context` has its bounds, choices or cause."""
    if kind == "missing":
        return "is missing: write it"
    if kind == "extra_forbidden":
        return "is unknown: leave it out"
    if kind == "value_error":
        if isinstance(context["error"], UnicodeEncodeError):
            return "write Unicode text: half of a surrogate pair is in it"
        return str(context["error"])  # raised by our own parsers, complete
    if kind in BOUNDS:
        name, bound = BOUNDS[kind]
        return f"write {bound} {context[name]}"
    if kind in {"literal_error", "enum"}:
        return "write " + str(context["expected"]).replace("'", "")
    if kind in {"too_long", "string_too_long"}:
        return f"write at most {context['max_length']}{' characters' if kind == 'string_too_long' else ''}"
    return f"write {KINDS[kind]}" if kind in KINDS else OTHER
