"""What runs, and from what: `sluice --version`, and the first line of the log."""

import platform
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from broker import __version__
from config.models import Config
from config.units import format_duration

_COMPILED_MODULE: Final = "protocol.decoder"
"""Any module of a folder that setup.py compiles."""
_ANONYMOUS: Final = "anonymous"


def code() -> str:
    """Whether the code runs compiled or interpreted."""
    spec = find_spec(_COMPILED_MODULE)
    origin = "" if spec is None or spec.origin is None else spec.origin
    return "interpreted" if origin.endswith(".py") else "compiled"


def version() -> str:
    """The version and what runs it, in one line."""
    return f"{__version__} ({code()}, Python {platform.python_version()})"


def introduction(config: Config, file: Path | None) -> dict[str, Any]:
    """The fields of the line `starting`; `file`: the configuration file, None = there is none."""
    own, journal, metrics = config.authorization, config.persistence.directory, config.metrics.directory
    rules = [
        f"{len(own.rules)} in authorization.rules" if own.rules else "",
        *_named({"rules_file": own.rules_file, "acl_file": own.acl_file}),
        *(f"plugin {each.name}" for each in own.plugins),
        "default: deny" if own.default == "deny" else "",
    ]
    return {
        "version": __version__,
        "code": code(),
        "python": platform.python_version(),
        "config": None if file is None else str(file),
        "journal": None if journal is None else str(journal),
        "metrics": None if metrics is None else str(metrics),
        "metrics_kept": None if metrics is None else format_duration(config.metrics.keep),
        "users": _users(config),
        "rules": _listed(rules),
    }


def _users(config: Config) -> str | None:
    """What decides who may connect; `anonymous` if clients may without."""
    own = config.authentication
    default = not own.has_users if config.allow_anonymous is None else config.allow_anonymous
    anonymous = any(default if each.allow_anonymous is None else each.allow_anonymous for each in config.listeners)
    certified = any(each.tls is not None and each.tls.require_client_certificate for each in config.listeners)
    found = [
        *_named({"password_file": own.password_file}),
        *(name for name, section in (("jwt", own.jwt), ("postgres", own.postgres), ("http", own.http)) if section),
        *(f"plugin {each.name}" for each in own.plugins),
        f"{len(own.scram)} in authentication.scram" if own.scram else "",
        "client certificates" if certified else "",
        _ANONYMOUS if anonymous else "",
    ]
    return _listed(found)


def _named(files: dict[str, Path | None]) -> list[str]:
    return [f"{key} {path}" for key, path in files.items() if path is not None]


def _listed(found: list[str]) -> str | None:
    return ", ".join(each for each in found if each) or None
