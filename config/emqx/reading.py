"""Reads emqx.conf, which is HOCON, into single settings."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

from config.imported.draft import Line, printable
from config.urls import HIDDEN, masked

MAIN: Final = "emqx.conf"
ORDER: Final = ("base.hocon", "cluster.hocon", MAIN)
"""Files of a directory; a setting of a later one replaces that of an earlier one."""

INCLUDE: Final = "include"

PART_OF_A_LIST: Final = "it changes a part of a list, and the rest is elsewhere: write the list at one place"

_OF_EMQX_4: Final = re.compile(
    rb"^[ \t]*(cluster\.discovery|node\.crash_dump|log\.to"
    rb"|allow_anonymous|acl_nomatch|acl_deny_action|acl_file|enable_acl_cache|auth\.[\w.]+|plugins\.etc_dir"
    rb"|listener\.(?:tcp|ssl|ws|wss|udp|dtls|quic)\.[\w.]+|zone\.[\w.]+|modules\.loaded_file)[ \t]*[=:]",
    re.MULTILINE,
)
"""Settings that no file of EMQX 5 has; those had braces, and `listeners`, `zones`, `authentication`."""

_WITHOUT_QUOTES: Final = re.compile(rb"^[ \t]*[\w.]+[ \t]*[=:][ \t]*([^\s\"'#{\[]*@[^\s#]*)", re.MULTILINE)
"""A value with a sign that EMQX takes without quotes, as the name of a node, and the library does not."""

_ADDED: Final = re.compile(rb'^(?:[^#"\n]|"[^"\n]*")*\+=', re.MULTILINE)
"""What is added to a list, of which the library keeps nothing else."""

MAX_BYTES: Final = 1024 * 1024
"""The largest file that is read."""

_SECRET: Final = ("password", "secret", "cookie", "token", "api_key")

Names = tuple[str, ...]


@dataclass(frozen=True)
class Setting(Line):
    """One value, with the names that lead to it; those of a list are numbers from 1 on, as EMQX writes them."""

    path: Names = ()
    found: object = None
    """The value as HOCON has it."""

    @property
    def place(self) -> str:
        """The file; HOCON knows no lines once it is read."""
        return printable(str(self.file))

    @property
    def shown(self) -> str:
        """The setting as people may see it: without secrets, in one line."""
        last = self.path[-1]
        hidden = last == "key" or "headers" in self.path or any(part in last for part in _SECRET)
        shown = masked(self.value) if "://" in self.value else self.value
        return printable(f"{self.name} = {HIDDEN if hidden else shown}")


def read(files: Sequence[Path]) -> list[Setting]:
    """All settings, of which those of later files replace those of earlier ones.

    A directory stands for the files in `ORDER` that it has. An included file that cannot be read is a setting
    `INCLUDE`, of which `found` is the reason. Raises OSError, ValueError if another cannot be read, and ImportError
    without the library that reads HOCON.
    """
    settings: dict[Names, Setting] = {}
    lists: set[Names] = set()
    for file in (each for path in files for each in _files(path)):
        tree, unread = _parsed(file)
        for path in lists:
            if _is_part_of_a_list(_below(tree, path)):
                raise ValueError(f"{file}: {'.'.join(path)}: {PART_OF_A_LIST}")
        found = _lists(tree, ())
        settings = {path: each for path, each in settings.items() if not _replaced(path, tree, found | lists)}
        lists |= found
        for path, value in _leaves(tree, ()):
            settings[path] = Setting(file, 0, ".".join(path), _text(value), path, value)
        for name, why in unread.items():
            settings[INCLUDE, name] = Setting(file, 0, INCLUDE, name, (INCLUDE, name), why)
    return list(settings.values())


def _lists(value: object, path: Names) -> set[Names]:
    """Where lists are."""
    if isinstance(value, Mapping):
        return {found for key, each in value.items() for found in _lists(each, (*path, _key(key)))}
    return {path} if isinstance(value, list) else set()


def _below(tree: object, path: Names) -> object:
    """What a tree has there; None if nothing."""
    for name in path:
        tree = _named(tree).get(name)
    return tree


def _is_part_of_a_list(value: object) -> bool:
    """Whether EMQX would put it into a list, by numbers, where the library forgets the list."""
    return isinstance(value, Mapping) and all(_key(key).isdigit() for key in value)


def _replaced(path: Names, tree: Mapping[str, Any], lists: set[Names]) -> bool:
    """Whether a later file replaces a setting: a list or a single value replaces all that was there before."""
    below: object = tree
    for length, name in enumerate(path, 1):
        if name not in _named(below):
            return False
        below = _named(below)[name]
        if path[:length] in lists or not isinstance(below, Mapping):
            return True
    return True


def _named(tree: object) -> Mapping[str, object]:
    """The values of an object by their names; of anything else none."""
    return {_key(key): each for key, each in tree.items()} if isinstance(tree, Mapping) else {}


def _key(key: object) -> str:
    return str(key).strip('"')


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = [path / name for name in ORDER if (path / name).exists()]
    if not found:
        raise OSError(f"{path}: there is no {MAIN} in it: name the file")
    return found


def _parsed(file: Path) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The settings as a tree, and why files that it includes cannot be read, by their names."""
    import pyhocon

    with file.open("rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{file}: is larger than {MAX_BYTES} bytes: this cannot be a configuration")
    if (zero := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise ValueError(f"{file}: line {line}: byte {zero} is 0: this is not text")
    if old := _OF_EMQX_4.search(data):
        line = data.count(b"\n", 0, old.start(1)) + 1
        raise ValueError(
            f"{file}:{line}: {old[1].decode()} is a setting of EMQX 4, whose files are not read: let EMQX 5 or 6 take "
            "them over first, or write sluice.yaml anew. Nothing is written"
        )
    if found := _WITHOUT_QUOTES.search(data):
        line = data.count(b"\n", 0, found.start(1)) + 1
        value = found[1].decode(errors="replace")
        raise ValueError(f'{file}:{line}: write the value in quotes: "{printable(value)}"')
    if added := _ADDED.search(data):
        line = data.count(b"\n", 0, added.end()) + 1
        raise ValueError(f"{file}:{line}: lists that are put together by += are not read: write the list at one place")
    try:
        with _files_only(file) as unread, _whole_lists():
            tree = pyhocon.ConfigFactory.parse_string(data.decode(errors="replace"), basedir=str(file.parent))
    except _RefusedError as error:
        raise ValueError(f"{file}: {printable(str(error))}") from error
    except Exception as error:
        # The library hands on whatever its parser and the files that are included raise.
        if "concatenate list" in str(error):  # such as `authentication.1.enable = false` below the list
            raise ValueError(f"{file}: {PART_OF_A_LIST}") from error
        line, column = getattr(error, "lineno", 0), getattr(error, "col", 0)
        if line:  # the parser's own words are its grammar
            wrong = "this is not HOCON, or a form of it that is not read, such as a path that begins with a quote"
            raise ValueError(f"{file}:{line}: column {column}: {wrong}") from error
        raise ValueError(f"{file}: this is not HOCON: {printable(str(error))}") from error
    if not isinstance(tree, Mapping):
        raise ValueError(f"{file}: this is not a configuration: write settings such as mqtt.max_inflight = 32")
    return tree, unread


class _RefusedError(Exception):
    """What the library would do with a file, and must not."""


@contextmanager
def _files_only(first: Path) -> Iterator[Mapping[str, str]]:
    """Keep the library from the network, and from files that include themselves or cannot be read.

    The latter, which it would pass over, are yielded with the reasons.

    It has no setting for these; it looks both functions up when it comes to an `include`.
    """
    from pyhocon import ConfigFactory

    parse_url, parse_file = ConfigFactory.parse_URL, ConfigFactory.parse_file
    including = [first.resolve()]
    unread: dict[str, str] = {}

    def refuse(url: str, *_: Any, **__: Any) -> NoReturn:
        raise _RefusedError(f"include of {url}: nothing is fetched: write it to a file, and include that")

    def parse(name: str, *arguments: Any, required: bool = True, **options: Any) -> Any:
        path = Path(name).resolve()
        if path in including:
            raise _RefusedError(f"{including[-1]} includes {path}, which includes it: remove one `include`")
        including.append(path)
        try:
            return parse_file(name, *arguments, required=True, **options)
        except OSError as error:
            why = error.strerror or str(error)
            if required:
                raise _RefusedError(f"include of {name}: {why}") from error
            unread[name] = why
            return []
        finally:
            including.pop()

    ConfigFactory.parse_URL, ConfigFactory.parse_file = refuse, parse
    try:
        yield unread
    finally:
        ConfigFactory.parse_URL, ConfigFactory.parse_file = parse_url, parse_file


@contextmanager
def _whole_lists() -> Iterator[None]:
    """Keep the library from putting a part of a list in place of the list."""
    from pyhocon.config_tree import ConfigTree, ConfigValues

    put = ConfigTree.__setitem__

    def checked(tree: Any, key: str, value: object) -> None:
        if isinstance(dict.get(tree, key), list | ConfigValues) and _is_part_of_a_list(value):
            raise _RefusedError(f"{_key(key)}: {PART_OF_A_LIST}")
        put(tree, key, value)

    ConfigTree.__setitem__ = checked
    try:
        yield
    finally:
        ConfigTree.__setitem__ = put


def _leaves(value: object, path: Names) -> Iterator[tuple[Names, object]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves(each, (*path, _key(key)))
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for number, each in enumerate(value, 1):
            yield from _leaves(each, (*path, str(number)))
    elif path:
        yield path, _plain(value)


def _plain(value: object) -> object:
    """The library makes durations of dateutil's kind where dateutil is installed, else Python's."""
    if type(value).__name__ != "relativedelta":
        return value
    units = ("days", "hours", "minutes", "seconds", "microseconds")
    return timedelta(**{unit: getattr(value, unit) for unit in units})


def _text(value: object) -> str:
    """A value as it is written in EMQX's file, or nearly so."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, timedelta):
        return f"{value / timedelta(seconds=1):g}s"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return "" if value is None else str(value)
