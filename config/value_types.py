"""The types of configuration values: parsing, checks, written form."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo

from config import bind_address, units

WRITTEN: Final = "written"
"""Key of the validation context: the values are in written form, so durations need a unit."""

MAX_NAME: Final = 64
"""Characters of a node or listener name, which becomes part of file names."""

MAX_UINT16: Final = 65_535
"""Packet ids, Receive Maximum and string lengths are 16-bit numbers in MQTT."""

COMMIT: Final = "commit"
"""Value of `persistence.sync` that has acknowledgements wait for the disk."""

AUTO: Final = "auto"
"""Value of `memory_watermark` that has it follow from the machine."""

_TEMPLATE: Final = re.compile(r"\{(cn|dns|email|uri)\}")
_URL_PATH: Final = re.compile(r"/[!-\"$->@-~]{0,999}", re.ASCII)
_MODE: Final = re.compile(r"0?[0-7]{3}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class Model(BaseModel):
    """Base of all models: immutable, and unknown keys are mistakes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Partial(Model):
    """A section of which only the keys that are given count; the others are as somewhere else."""


def keys_of(section: BaseModel) -> list[str]:
    """The keys of a section that count, in order."""
    names = list(type(section).model_fields)
    return [name for name in names if name in section.model_fields_set] if isinstance(section, Partial) else names


@dataclass(frozen=True)
class Written:
    """Marks a field whose written form differs from its loaded value; `format` converts."""

    format: Callable[[Any], object]


def _written(info: ValidationInfo) -> bool:
    """Whether the value is in written form, not from Python code."""
    return bool((info.context or {}).get(WRITTEN, False))


def _duration(value: object, info: ValidationInfo) -> float:
    return units.parse_duration(value, bare_numbers=not _written(info))


def _finite_duration(value: object, info: ValidationInfo) -> float:
    return units.parse_duration(value, bare_numbers=not _written(info), unlimited=False)


def _finite_size(value: object) -> int:
    return units.parse_size(value, unlimited=False)


def _finite_count(value: object) -> int:
    return units.parse_count(value, unlimited=False)


def _limited_size(value: object, info: ValidationInfo) -> int:
    """A size for which a written 0 is refused: it looks like no bytes and would mean no limit."""
    size = units.parse_size(value)
    if size == 0 and str(value).strip() != units.INFINITY and _written(info):
        raise ValueError(f"found {units.found(value)}: write 1B or more, or {units.INFINITY} for no limit")
    return size


def _watermark(value: object, info: ValidationInfo) -> int | str:
    if isinstance(value, str) and value.strip() == AUTO:
        return AUTO
    try:
        return _limited_size(value, info)
    except ValueError as error:
        raise ValueError(f"{error}, or {AUTO} for three quarters of what there is") from None


def _format_watermark(value: int | str) -> str:
    return value if isinstance(value, str) else units.format_size(value)


def _rate(value: object, info: ValidationInfo) -> int:
    return units.parse_rate(value, zero=not _written(info))


def check_name(value: object) -> object:
    """Refuse names that cannot begin a file name; Spark skips files that begin with a dot or underscore."""
    if isinstance(value, str) and (not _NAME.fullmatch(value) or len(value) > MAX_NAME):
        raise ValueError(
            f"found {units.found(value)}: write 1 to {MAX_NAME} of the characters A-Z a-z 0-9 . _ -, "
            "beginning with a letter or digit"
        )
    return value


def check_bind(value: object) -> str:
    """Check a bind address."""
    return bind_address.parse(value).text


def check_mode(value: object) -> str:
    """Check permissions of a file. YAML reads 0660 without quotes as another number."""
    if not isinstance(value, str) or not _MODE.fullmatch(value):
        raise ValueError(f'found {units.found(value)}: write three octal digits in quotes, such as "0660"')
    return value


def check_template(value: object) -> object:
    """Check a user name that is made of names in a certificate: without one all clients would be the same user."""
    if value is not None and not (isinstance(value, str) and _TEMPLATE.search(value)):
        raise ValueError(f"found {units.found(value)}: write a text with {{cn}}, {{dns}}, {{email}} or {{uri}}")
    return value


def check_url_paths(value: object) -> list[str]:
    """Check paths of a URL: one, or a list of them."""
    paths: list[object] = value if isinstance(value, list) else [value]
    wrong = [path for path in paths if not (isinstance(path, str) and _URL_PATH.fullmatch(path))]
    if wrong or not paths:
        shown = units.found(wrong[0] if wrong else value)
        raise ValueError(f"found {shown}: write the path of a URL such as /mqtt, or a list of paths such as [/mqtt, /]")
    return [str(path) for path in paths]


def check_directory(value: object) -> object:
    """Refuse an empty path."""
    if value == "":
        raise ValueError("found an empty path: write a directory, or leave the key out")
    return _file_name(value)


def _file_name(value: object) -> object:
    """Refuse a path that no file can have."""
    if isinstance(value, str) and b"\0" in os.fsencode(value):
        raise ValueError(f"found {units.found(value)}: write a path without the null character")
    return without_tilde(value)


def without_tilde(value: object) -> object:
    """Refuse a path that begins with `~`: only a shell expands that."""
    if str(value).startswith("~"):
        raise ValueError(f"found {value}: write the whole path; ~ is not expanded")
    return value


def check_path(value: object) -> object:
    """Refuse an empty path of a file."""
    if value == "":
        raise ValueError("found an empty path: name a file, or leave the key out")
    return _file_name(value)


def check_factor(value: object) -> object:
    """Refuse true and false, which pydantic accepts as numbers."""
    if isinstance(value, bool):
        raise ValueError(f"found {units.found(value)}: write a number such as 1.5")
    return value


def check_version(value: object) -> object:
    """Accept `1.2` and `1.3` without quotes too, which YAML reads as numbers."""
    return str(value) if isinstance(value, float) else value


def check_topic_filter(value: object) -> object:
    """Check a topic filter (section 4.7.1)."""
    if not isinstance(value, str):
        return value
    levels = value.split("/")
    wrong = any(len(level) > 1 and ("+" in level or "#" in level) for level in levels) or "#" in levels[:-1]
    if not value or wrong or "\0" in value or len(value.encode()) > MAX_UINT16:
        raise ValueError(f"found {units.found(value)}: write a topic filter such as secret/# or +/private")
    if levels[0] == "$share":  # shared subscriptions are matched by the filter in them
        raise ValueError(f"found {units.found(value)}: write the filter alone, without $share and the group")
    return value


def _text(value: object) -> object:
    """Check a string for MQTT."""
    if isinstance(value, str) and (not value or "\0" in value or len(value.encode()) > MAX_UINT16):
        raise ValueError(f"found {units.found(value)}: write 1 to {MAX_UINT16} bytes without the null character")
    return value


def _keep_alive(value: object, info: ValidationInfo) -> object:
    """A keep-alive: whole seconds, 16 bits."""
    if value is None:
        return None
    seconds = _finite_duration(value, info)
    if seconds != int(seconds) or not 1 <= seconds <= MAX_UINT16:
        raise ValueError(f"found {units.found(value)}: write whole seconds, 1s to {MAX_UINT16}s")
    return seconds


def _sync_interval(value: object, info: ValidationInfo) -> float:
    """`commit` is 0: no interval."""
    if value == COMMIT or (value == 0.0 and not _written(info)):
        return 0.0
    expected = f"found {units.found(value)}: write {COMMIT}, or a duration such as 1s"
    try:
        seconds = _finite_duration(value, info)
    except ValueError as error:
        raise ValueError(expected) from error
    if not seconds:
        raise ValueError(expected)
    return seconds


def _format_sync_interval(seconds: float) -> object:
    return units.format_duration(seconds) if seconds else COMMIT


Duration = Annotated[float, BeforeValidator(_duration), Written(units.format_duration)]
Size = Annotated[int, BeforeValidator(units.parse_size), Written(units.format_size)]
LimitedSize = Annotated[int, BeforeValidator(_limited_size), Written(units.format_size)]
WatermarkSize = Annotated[int | str, BeforeValidator(_watermark), Written(_format_watermark)]
Window = Annotated[int, BeforeValidator(units.parse_window), Written(units.format_window)]
Count = Annotated[int, BeforeValidator(units.parse_count), Written(units.format_count)]
FiniteDuration = Annotated[float, BeforeValidator(_finite_duration), Written(units.format_duration)]
FiniteSize = Annotated[int, BeforeValidator(_finite_size), Written(units.format_size)]
FiniteCount = Annotated[int, BeforeValidator(_finite_count)]
Rate = Annotated[int, BeforeValidator(_rate), Written(units.format_count)]
Name = Annotated[str, BeforeValidator(check_name)]
TopicFilter = Annotated[str, BeforeValidator(check_topic_filter)]
Text = Annotated[str, BeforeValidator(_text)]
SyncInterval = Annotated[float, BeforeValidator(_sync_interval), Written(_format_sync_interval)]
KeepAlive = Annotated[float | None, BeforeValidator(_keep_alive), Written(units.format_duration)]
