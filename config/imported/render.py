"""Writes a section as YAML, each key with the line that it comes from."""

import json
from collections.abc import Iterator

from config.imported.draft import Section, Value, printable

_HEAD = (
    "# Made by `sluice import {broker}` from {source}.",
    "# Behind `#` is the line that a key comes from. `sluice config show` prints all keys, also those of defaults.",
)


def document(section: Section, broker: str, source: str) -> str:
    """The text of the file. `broker`: whose configuration has been imported."""
    head = "\n".join(_HEAD).format(broker=broker, source=printable(source))
    return "\n".join([head, "", *_lines(section, "")]) + "\n"


def _lines(section: Section, indent: str) -> Iterator[str]:
    for key, found in section.keys.items():
        if isinstance(found, Value):
            comment = f"  # {_one_line(found.source)}" if found.source else ""
            yield f"{indent}{key}: {_written(found.value)}{comment}"
        elif isinstance(found, list):
            yield f"{indent}{key}:"
            for item in found:
                first, *rest = _lines(item, indent + "    ")
                yield f"{indent}  - {first.lstrip()}"
                yield from rest
        elif found.keys or found.remarks:
            if found.keys:
                yield f"{indent}{key}:"
            yield from _lines(found, indent + "  ")
    for remark in section.remarks:
        yield f"{indent}# {_one_line(remark)}"


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _written(value: object) -> str:
    """A value in YAML's flow form, which JSON is."""
    return json.dumps(value, ensure_ascii=False)
