"""The configured files of rules."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from broker.auth.authorizer import Authorizer
from broker.auth.rule_files import mosquitto_acl, rules_file
from broker.auth.rules import Rule
from broker.auth.watched_file import WatchedFile
from config.models import Config


def open_files(
    config: Config, authorizer: Authorizer, use: Callable[[str, list[Rule]], Awaitable[None]]
) -> list[WatchedFile[Any]]:
    """Read the files into the authorizer; when one changes, `use` is called with its key and its rules.

    Raises OSError, also for mistakes in a file.
    """
    own = config.authorization
    files: list[WatchedFile[Any]] = []
    for key, path, read in (
        (rules_file.KEY, own.rules_file, rules_file.read),
        (mosquitto_acl.KEY, own.acl_file, mosquitto_acl.read),
    ):
        if path is None:
            continue
        file = WatchedFile({key: path}, partial(read, path), partial(use, key))
        authorizer.put(key, file.read())
        files.append(file)
    return files
