"""Reads terms of Erlang, as in acl.conf."""

import re
from collections.abc import Iterator
from typing import Any, Final, final

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|%[^\n]*)|(?P<string>"(?:[^"\\]|\\["\\'])*"|<<"(?:[^"\\]|\\["\\'])*"(?:/utf8)?>>)"""
    r"""|(?P<atom>'[^'\\]*'|[a-z][A-Za-z0-9_@]*)|(?P<number>\d{1,9})|(?P<sign>[{}\[\],.])""",
    re.ASCII,
)
_CLOSES: Final = {"{": "}", "[": "]"}
_MOST_NESTED: Final = 20


@final
class Atom(str):
    """An atom, which a text with the same letters is not."""

    __slots__ = ()


def terms(text: str) -> Iterator[tuple[int, str, Any]]:
    """Each term that ends with a point: its line, as written, and as Python's tuples, lists, texts, atoms and numbers.

    Raises ValueError for what is none, also for escapes that would have to be understood.
    """
    tokens: list[str] = []
    start = end = position = counted = 0
    line = 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"found {text[position : position + 20]!r}: this is not a term of Erlang")
        position = match.end()
        if match["space"]:
            continue
        start = start if tokens else match.start()
        if match[0] != ".":
            tokens.append(match[0])
            end = position
        elif tokens:
            line, counted = line + text.count("\n", counted, start), start
            yield line, text[start:end], _whole(tokens)
            tokens = []
    if tokens:
        raise ValueError(f"found {text[start : start + 40]!r}: a rule ends with a point")


def _whole(tokens: list[str]) -> Any:
    term, after = _term(tokens, 0, 0)
    if after < len(tokens):
        raise ValueError(f"found {tokens[after]!r:.40} behind a rule: it ends with a point")
    return term


def _term(tokens: list[str], at: int, depth: int) -> tuple[Any, int]:
    """The term that begins there, and where it has ended."""
    if depth > _MOST_NESTED:
        raise ValueError("found terms within terms within terms: this is not a rule")
    sign = tokens[at] if at < len(tokens) else "."
    if sign in _CLOSES:
        return _items(tokens, at, depth)
    if sign in "}],.":
        raise ValueError(f"found {sign!r}: a term is missing before it")
    if sign[0] in '"<':
        return re.sub(r"\\(.)", r"\1", sign[sign.index('"') + 1 : sign.rindex('"')]), at + 1
    if sign[0].isdigit():
        return int(sign), at + 1
    return Atom(sign.strip("'")), at + 1


def _items(tokens: list[str], at: int, depth: int) -> tuple[Any, int]:
    """A tuple or a list."""
    closes = _CLOSES[tokens[at]]
    items: list[Any] = []
    sign, after = ",", at + 1
    if tokens[after : after + 1] == [closes]:
        sign, after = closes, after + 1
    while sign == ",":
        item, after = _term(tokens, after, depth + 1)
        items.append(item)
        sign = tokens[after] if after < len(tokens) else "."
        after += 1
    if sign != closes:
        raise ValueError(f"found {sign!r:.40}: write a comma between two terms, and {closes} behind the last")
    return (tuple(items) if closes == "}" else items), after
