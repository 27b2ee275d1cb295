"""Reads a YAML file into a layer with the line of each value, and finds duplicate keys.

Plain scalars are read as in YAML 1.2: only `true` and `false` are booleans, `010` is ten, `12:30` is text. Aliases,
tags and several documents are refused.
"""

import re
from pathlib import Path as FilePath
from typing import Final

import yaml

from config.errors import Problem
from config.layers import Layer, Origin, Path, dotted

MAX_BYTES: Final = 1024 * 1024
"""The largest file that is read."""

_INT: Final = re.compile(r"[-+]?[0-9]{1,20}", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]{1,20}|[0-9]{1,20}(\.[0-9]{0,20})?)([eE][-+]?[0-9]{1,3})?", re.ASCII)
_CONSTANTS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PLAIN_TAGS: Final = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map", "!"}


class _UnreadableError(Exception):
    """The file cannot be parsed: the reason, and the line if there is one."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class _Loader(yaml.BaseLoader):
    """Composes nodes with all scalars as text; aliases are errors."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # untyped in the stubs
            raise yaml.MarkedYAMLError(problem="found an alias: write the value out", problem_mark=mark)
        return super().compose_node(parent, index)


def read(path: FilePath) -> tuple[Layer, list[Problem], bool]:
    """Read `path`. Returns its layer, its mistakes, and whether it could be parsed."""
    source = str(path)
    try:
        node = _compose(_text(path))
    except _UnreadableError as error:
        return Layer(), [Problem("", source, error.line, str(error))], False
    reading = _Reading(source)
    if node is not None and not _is_empty(node):
        if not isinstance(node, yaml.MappingNode):
            line = node.start_mark.line + 1
            message = "found no keys: write lines like `node_name: a`"
            return Layer(), [Problem("", source, line, message)], False
        reading.layer.values = reading.mapping(node, ())
    return reading.layer, reading.problems, True


def _text(path: FilePath) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _UnreadableError("there is no such file") from None
    except IsADirectoryError:
        raise _UnreadableError("this is a directory: name the file in it") from None
    except OSError as error:
        raise _UnreadableError(f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise _UnreadableError(f"cannot be a file name: {error}") from None
    if len(data) > MAX_BYTES:
        raise _UnreadableError(f"is larger than {MAX_BYTES} bytes: this cannot be a configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _UnreadableError(f"is not text in UTF-8 (byte 0x{data[error.start]:02x})", line) from None


def _compose(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.context, error.problem) if part)
        hint = " (YAML indents with spaces)" if "'\\t'" in reason else ""
        raise _UnreadableError(f"is not YAML: {reason}{hint}", None if mark is None else mark.line + 1) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = ord(text[error.position])
        raise _UnreadableError(f"is not text: it holds the character #x{character:02x}", line) from None
    except RecursionError:
        raise _UnreadableError("is nested too deeply: this cannot be a configuration") from None


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value in ("", "~", "null")


class _Reading:
    """One walk over the nodes of a file: collects values, lines and mistakes."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.layer = Layer()
        self.problems: list[Problem] = []

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        """Turn a mapping into a dict. A duplicate key is a mistake; the first value is kept."""
        values: dict[str, object] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._mistake(path, line, "found a key that is not a name: write `name: value`")
                continue
            key = str(key_node.value)
            if key in values:
                message = f"is given twice, in lines {lines[key]} and {line}: keep one"
                self._mistake((*path, key), line, message)
                continue
            lines[key] = line
            self.layer.origins[(*path, key)] = Origin(self.source, line)
            values[key] = self._value(value_node, (*path, key))
        return values

    def _value(self, node: yaml.Node, path: Path) -> object:
        line = node.start_mark.line + 1
        if node.tag not in _PLAIN_TAGS:
            self._mistake(path, line, f"found the tag {node.tag}: write the plain value")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            items: list[object] = []
            for index, item in enumerate(node.value):
                self.layer.origins[(*path, index)] = Origin(self.source, item.start_mark.line + 1)
                items.append(self._value(item, (*path, index)))
            return items
        return plain(node.value) if isinstance(node, yaml.ScalarNode) and node.style is None else node.value

    def _mistake(self, path: Path, line: int, message: str) -> None:
        self.problems.append(Problem(dotted(path), self.source, line, message))


def plain(text: str) -> object:
    """Read a plain scalar as YAML 1.2's core schema does, numbers in decimal only."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
