"""The flags that set configuration: one table for `run` and `config show`."""

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

import config

CONFIG_PROBLEM: Final = 2
"""Exit status for a configuration that cannot be used."""


class _Flag(NamedTuple):
    name: str
    """The name on the command line."""
    key: str
    """Dotted path of the configuration key that it sets."""
    kind: Any
    option: Any
    """Its definition for typer."""


_FLAGS: Final = (
    _Flag(
        "--listen",
        "listeners",
        list[str],
        typer.Option(
            "--listen",
            "-l",
            metavar="HOST:PORT",
            help="Bind address to listen on instead of on the configured listeners; may be repeated.",
        ),
    ),
    _Flag(
        "--node-name",
        "node_name",
        str,
        typer.Option(metavar="NAME", help="This broker's name in metrics and logs."),
    ),
    _Flag(
        "--workers",
        "cluster.workers",
        str,
        typer.Option(metavar="N", help="Processes that serve clients behind one port; auto is one for each core."),
    ),
    _Flag(
        "--allow-anonymous",
        "allow_anonymous",
        bool,
        typer.Option("--allow-anonymous/--no-allow-anonymous", help="Accept clients without authentication."),
    ),
    _Flag(
        "--metrics-directory",
        "metrics.directory",
        Path,
        typer.Option(metavar="DIR", help="Export per-session metrics to this directory."),
    ),
    _Flag(
        "--log-level",
        "log.level",
        str,
        typer.Option(metavar="LEVEL", help="debug, info, warning or error."),
    ),
    _Flag(
        "--log-format",
        "log.format",
        str,
        typer.Option(metavar="FORMAT", help="console or json."),
    ),
)

_CONFIG_FILE: Final = typer.Option(
    "--config", "-c", metavar="FILE", help="YAML file; without it, TCP on loopback port 1883."
)


def configured(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--config` and all flags; its first argument is the resulting `config.Loaded`.

    A configuration with mistakes ends the program with CONFIG_PROBLEM before the command is called.
    """

    @functools.wraps(command)
    def call(config_file: Path | None, **given: Any) -> None:
        flags = {flag.key: _value(flag, given.pop(_argument(flag))) for flag in _FLAGS}
        command(_load(config_file, flags), **given)

    # Typer derives a command's options from its signature.
    _, *own = inspect.signature(command).parameters.values()
    parameters = [_parameter("config_file", Path, _CONFIG_FILE)]
    parameters += [_parameter(_argument(flag), flag.kind, flag.option) for flag in _FLAGS]
    call.__signature__ = inspect.Signature([*parameters, *own])  # type: ignore[attr-defined]  # mypy: functions have none
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in [*parameters, *own]}
    return call


def _argument(flag: _Flag) -> str:
    return flag.name.removeprefix("--").replace("-", "_")


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Annotated[kind | None, option]
    )


def _value(flag: _Flag, given: Any) -> config.Flag | None:
    """The flag's value in the configuration's form; None if the flag was not given."""
    if given is None or given == []:
        return None
    if flag.key == "listeners":
        given = [{"name": f"flag{number}", "bind": bind} for number, bind in enumerate(given, 1)]
    return config.Flag(flag.name, given)


def _load(path: Path | None, flags: dict[str, config.Flag | None]) -> config.Loaded:
    try:
        return config.load(path, flags=flags)
    except config.ConfigError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(CONFIG_PROBLEM) from None
