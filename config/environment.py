"""Reads `SLUICE_...` environment variables into a layer, and finds those that name no key.

`SLUICE_SESSION__MAX_INFLIGHT=64` sets session.max_inflight; lists and whole sections are JSON. pydantic-settings parses
names and nesting, one variable at a time, so that each mistake names its variable. `null` means None where a key may be
null, as in a file.
"""

import re
from collections.abc import Mapping
from types import NoneType
from typing import Final, get_args

from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from config.errors import Problem
from config.layers import Layer, Origin, Path, origins_of
from config.models import Config
from config.schema import ENV_NESTED, ENV_PREFIX, field_at, holds_secrets, suggest_variable

NOT_SETTINGS: Final = re.compile(
    r"SLUICE_(COMPILE|OPTIMIZE|EXPECT|AIRFLOW_PYTHON)"  # for builds and tests
    r"|SLUICE_DEV_\w+"  # switches for developers
    # Set by Kubernetes in every container for a service named sluice, sluice-mqtt ...
    r"|SLUICE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)",
    re.ASCII,
)
"""Variables with our prefix that are not configuration."""

_SERVICE_PORT: Final = re.compile(r"SLUICE_(\w+_)?PORT", re.ASCII)
_SERVICE_URL: Final = re.compile(r"(tcp|udp|sctp)://.+", re.ASCII)


class _Environment(BaseSettings, Config):
    """Config in the form that pydantic-settings needs; never instantiated."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_nested_delimiter=ENV_NESTED)


def read(environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """Read all our variables. Returns their layer and the mistakes in them."""
    layer, problems = Layer(), list[Problem]()
    # Whole sections first, so that a variable for one key prevails over the JSON for its section.
    for name in sorted((name for name in environ if is_ours(name, environ[name])), key=_by_depth):
        values = _values(name, environ[name])
        if isinstance(values, str):
            problems.append(Problem("", name, None, values))
        else:
            layer.put(Layer(values, origins_of(values, Origin(name))))
    return layer, problems


def is_ours(name: str, value: str) -> bool:
    """Whether a variable is configuration."""
    if not name.startswith(ENV_PREFIX) or NOT_SETTINGS.fullmatch(name):
        return False
    return not (_SERVICE_PORT.fullmatch(name) and _SERVICE_URL.fullmatch(value))


def _by_depth(name: str) -> tuple[int, str]:
    return name.count(ENV_NESTED), name


def _values(name: str, value: str) -> dict[str, object] | str:
    """The tree of values in one variable, or a message about what is wrong with it."""
    if name != name.upper():
        return f"unknown variable; did you mean {name.upper()}?"
    source = EnvSettingsSource(_Environment)
    source.env_vars = {name.lower(): value}
    try:
        values: dict[str, object] = source()
    except SettingsError as error:
        section = name.lower().removeprefix(ENV_PREFIX.lower()).split(ENV_NESTED)[0]
        shown = "text" if holds_secrets((section,)) else repr(value)
        return f"found {shown}, which is not JSON ({error.__cause__}): write lists and sections as JSON"
    if value == "null":
        _read_null(values, ())
    return values or f"unknown variable; {suggest_variable(name)}"


def _read_null(values: dict[str, object], path: Path) -> None:
    """Replace the one value in the tree with None if its key may be null; otherwise it stays text."""
    for key, value in values.items():
        field = field_at((*path, key))
        if isinstance(value, dict):
            _read_null(value, (*path, key))
        elif field is not None and NoneType in get_args(field.annotation):
            values[key] = None
