"""Loads a configuration (flags over environment over file over defaults) and reports all mistakes at once.

loaded = load(Path("sluice.yaml"))
loaded.config.session.max_inflight, loaded.sources["session.max_inflight"]
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial as partial_call
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from config import (
    address_rules,
    admin_rules,
    bridge_rules,
    cluster_rules,
    drop_events,
    environment,
    files,
    messages,
    partial,
    plugins,
    rules,
    rules_file,
    yaml_file,
)
from config.errors import ConfigError, Problem
from config.files import is_irregular
from config.hidden import without_secrets
from config.layers import Layer, Origin, Path, Tree, dotted, origins_of
from config.models import DEFAULT_BIND, Config
from config.mounts import Mount, mount_of, replaced
from config.schema import field_at
from config.value_types import WRITTEN, keys_of

DEFAULT: Final = "default"
"""The source of values that are not set."""

DEFAULT_LISTENERS: Final = [{"bind": DEFAULT_BIND}]
"""The default listeners as raw values."""

TRIES: Final = 3
"""Reads of a file that is being written, until it has to wait for the next reload."""


class Flag(NamedTuple):
    """A value from the command line together with the name of its flag: Flag("--bind", ...)."""

    name: str
    value: object


@dataclass(frozen=True)
class Loaded:
    """A valid configuration, and the source of the value of each dotted key."""

    config: Config
    sources: dict[str, str]
    again: "Callable[[], Loaded] | None" = field(default=None, compare=False, repr=False)
    """Loads it again, from the same file, variables and flags."""
    file: FilePath | None = None
    """The configuration file; None = there is none."""


def load(
    path: FilePath | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Load the configuration.

    `path` is a YAML file (None = no file), `environ` the variables to read (None = those of this process) and `flags`
    maps dotted keys to values or Flags (None = not given). Values are in written form: durations have a unit. Raises
    ConfigError with all mistakes.
    """
    mount = None if path is None else mount_of(path)
    raw, problems, readable = _read(path, os.environ if environ is None else environ, flags or {})
    config: Config | None = None
    try:
        config = Config.model_validate(raw.values, context={WRITTEN: True})
    except ValidationError as error:
        problems += [
            _problem(details["loc"], messages.explain(details, raw), raw)
            for details in error.errors(include_url=False)
            if details["type"] != rules.ERROR_TYPE
        ]
    if readable:
        problems += _between_keys(raw)
    if config is None or problems:
        raise ConfigError(sorted(set(problems), key=_order))
    again = partial_call(_load_again, path, environ, flags, mount)
    return Loaded(config, dict(_sources(config, (), raw)), again, path)


def _load_again(
    path: FilePath | None,
    environ: Mapping[str, str] | None,
    flags: Mapping[str, object] | None,
    mount: Mount | None,
) -> Loaded:
    """Load again. A file that is being written is read once more. `mount`: how it was mounted at first.

    Raises ConfigError, or OSError if the file is empty, a FIFO, or not the one of its name any more.

    An empty file is valid, but a broker that runs must not close its listeners because an editor has just truncated it.
    A FIFO, as shells make of `<(...)`, has been read to its end: it would be waited for without end.
    """
    if path is not None and is_irregular(path):
        raise OSError(f"{path} is not a regular file, which could be read again: nothing has changed")
    if path is not None and (why := replaced(path, mount)):
        raise OSError(f"{path} {why}: nothing has changed")
    before = _state(path)
    for _ in range(TRIES):
        try:
            loaded = load(path, environ, flags)
        except ConfigError:
            if _state(path) == before:
                raise
        else:
            if _state(path) == before and (before is None or before[1]):
                return loaded
        before = _state(path)
    raise OSError(f"{path} is empty, or is being written: nothing has changed")


def _state(path: FilePath | None) -> tuple[int, int, int] | None:
    """What shows whether a file has changed; None if there is none."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return found and (found.st_mtime_ns, found.st_size, found.st_ino)


def check(path: FilePath) -> list[Problem]:
    """Find every mistake in one file, without the environment; an empty list means that it is valid."""
    try:
        load(path, environ={})
    except ConfigError as error:
        return error.problems
    return []


def _read(
    path: FilePath | None, environ: Mapping[str, str], flags: Mapping[str, object]
) -> tuple[Layer, list[Problem], bool]:
    """Merge all layers. Returns also the mistakes, and whether the file could be parsed."""
    raw, problems, readable = Layer(), list[Problem](), True
    if path is not None:
        layer, problems, readable = yaml_file.read(path)
        raw.put(layer)
        _drop_empty_sections(raw.values)
    layer, more = environment.read(environ)
    raw.put(layer)
    raw.put(_flags(flags))
    return raw, problems + more, readable


def _drop_empty_sections(values: Tree, path: Path = ()) -> None:
    """Read `session:` with nothing (or only comments) under it as a section without keys."""
    for key, value in values.items():
        here = (*path, key)
        field = field_at(here)
        if field is not None and isinstance(field.annotation, type(BaseModel)):
            if value is None:
                values[key] = {}
            elif isinstance(value, dict):
                _drop_empty_sections(value, here)


def _flags(flags: Mapping[str, object]) -> Layer:
    layer = Layer()
    for key, given in flags.items():
        flag = given if isinstance(given, Flag) else Flag(f"--{key}", given)
        if flag.value is None:
            continue
        path = tuple(key.split("."))
        tree: Any = flag.value
        for name in reversed(path):
            tree = {name: tree}
        layer.put(Layer(tree, origins_of(tree, Origin(flag.name))))
    return layer


def _between_keys(raw: Layer) -> Iterator[Problem]:
    """Check the rules between keys and the files on disk, for the values that could be parsed."""
    listeners = raw.values.get("listeners", DEFAULT_LISTENERS)
    facts = partial.listeners(listeners)
    broken_rules = rules.broken(facts, partial.allow_anonymous(raw.values), partial.users(raw.values))
    broken_rules += rules.same_bridges(partial.bridge_names(raw.values))
    broken_rules += bridge_rules.broken(partial.bridges(raw.values), partial.node_name(raw.values))
    broken_rules += address_rules.broken(
        partial.addresses(raw.values), partial.journal(raw.values), partial.priorities(raw.values)
    )
    broken_rules += admin_rules.broken(*partial.admin(raw.values), facts)
    broken_rules += drop_events.broken(*partial.drop_topic(raw.values))
    broken_rules += cluster_rules.broken(partial.workers(raw.values), raw.values)
    for broken in broken_rules:
        yield _problem(broken.path, broken.message, raw)
    named = partial.file_names(raw.values)
    wrong = [*files.broken(listeners, raw.values.get("admin"), raw.values.get("bridges")), *files.unreadable(named)]
    for path, message in [*wrong, *plugins.missing(raw.values)]:
        yield _problem(path, message, raw)
    for section, check in (("metrics", files.no_directory), ("persistence", files.no_journal)):
        values = raw.values.get(section)
        if isinstance(values, dict) and (message := check(values.get("directory"))):
            yield _problem((section, "directory"), message, raw)
    name = named[partial.RULES_FILE]
    if name is not None and partial.RULES_FILE not in dict(wrong):
        try:
            rules_file.read_rules(FilePath(name))
        except ConfigError as error:
            yield from error.problems


def _problem(path: Path, message: str, raw: Layer) -> Problem:
    origin = raw.origin(path) or Origin(DEFAULT)
    return Problem(dotted(path), origin.source, origin.line, without_secrets(message, path, raw.values))


def _order(problem: Problem) -> tuple[bool, int, str, str, str]:
    """Sort by line of the file, then variables and flags by name."""
    return problem.line is None, problem.line or 0, problem.source, problem.path, problem.message


def _sources(value: object, path: Path, raw: Layer) -> Iterator[tuple[str, str]]:
    """The source of every value that is not a section."""
    if isinstance(value, BaseModel):
        for name in keys_of(value):
            yield from _sources(getattr(value, name), (*path, name), raw)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _sources(item, (*path, index), raw)
    else:
        whole = path[:-1] if path and isinstance(path[-1], int) else path  # one text may stand for a list of one
        yield dotted(path), str(raw.origins.get(path, raw.origins.get(whole, DEFAULT)))
