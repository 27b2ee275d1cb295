"""Writes a loaded configuration as YAML, each value with a comment that names its source.

The text can be loaded again and gives the same configuration, without the secrets.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Final

import yaml
from pydantic import BaseModel, SecretBytes, SecretStr

from config import yaml_file
from config.layers import Path, dotted
from config.load import DEFAULT, Loaded
from config.memory import watermark
from config.models import Config
from config.schema import written
from config.urls import HIDDEN, masked
from config.value_types import keys_of

INDENT: Final = "  "
_WATERMARK: Final = "memory_watermark"


def render(loaded: Loaded) -> str:
    """Return the effective configuration as YAML text."""
    lines = list(_section(loaded.config, (), explained(loaded.config, loaded.sources), ""))
    width = max(len(text) for text, source in lines if source)
    return "".join(f"{text:<{width}}  # {source}\n" if source else f"{text}\n" for text, source in lines)


def explained(config: Config, sources: Mapping[str, str]) -> dict[str, str]:
    """The sources, with what this machine makes of `auto`."""
    why = watermark(config).why
    return {**sources, _WATERMARK: f"{sources.get(_WATERMARK, DEFAULT)}: {why}"} if why else dict(sources)


def settings(config: BaseModel, sources: Mapping[str, str], path: Path = ()) -> Iterator[tuple[str, object, str]]:
    """Key, written value and source of every value that is not a section; secrets are hidden."""
    for name in keys_of(config):
        yield from _settings(getattr(config, name), (*path, name), sources)


def _settings(value: object, path: Path, sources: Mapping[str, str]) -> Iterator[tuple[str, object, str]]:
    if isinstance(value, BaseModel):
        yield from settings(value, sources, path)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _settings(item, (*path, index), sources)
    else:
        shown = _shown(written(path, value))
        yield dotted(path), shown, sources.get(dotted(path), "")


def _section(model: BaseModel, path: Path, sources: dict[str, str], indent: str) -> Iterator[tuple[str, str]]:
    """Each line of a section, and the source of its value ("" for headings)."""
    for name in keys_of(model):
        value, here = getattr(model, name), (*path, name)
        if isinstance(value, BaseModel):
            yield f"{indent}{name}:", ""
            yield from _section(value, here, sources, indent + INDENT)
        elif isinstance(value, list) and value:
            yield f"{indent}{name}:", ""
            for index, item in enumerate(value):
                yield from _item(item, (*here, index), sources, indent + INDENT)
        else:
            yield f"{indent}{name}: {_scalar(written(here, value))}", sources[dotted(here)]


def _item(item: object, path: Path, sources: dict[str, str], indent: str) -> Iterator[tuple[str, str]]:
    """The lines of one item of a list, the first one with a dash."""
    if isinstance(item, BaseModel):
        dash = "- "
        for text, source in _section(item, path, sources, indent + INDENT):
            yield indent + dash + text[len(indent) + len(dash) :], source
            dash = INDENT
    else:
        yield f"{indent}- {_scalar(item)}", sources[dotted(path)]


def _is_secret(value: object) -> bool:
    """Whether a value must not be shown: also what a plugin alone can tell from a secret."""
    return isinstance(value, SecretStr | SecretBytes) or (isinstance(value, dict) and bool(value))


def _shown(value: object) -> object:
    """A value as people may see it."""
    if _is_secret(value):
        return HIDDEN
    if isinstance(value, str) and "://" in value:
        return masked(value)
    return str(value) if isinstance(value, FilePath) else value


def _scalar(value: object) -> str:
    value = _shown(value)
    # Text that YAML 1.2 would read as something else, such as 1e3, gets quotes.
    style = "'" if isinstance(value, str) and yaml_file.plain(value) != value else None
    text: str = yaml.safe_dump(value, allow_unicode=True, default_style=style, width=10**6)
    return text.removesuffix("...\n").rstrip("\n")
