"""The command line: `sluice run`, `sluice config`, `sluice report`."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import config
from broker import __version__
from broker.logs import configure
from broker.server import Server

CONFIG_PROBLEM = 2
"""Exit status for a configuration that cannot be used."""
CANNOT_SERVE = 1

app = typer.Typer(
    help="Sluice: an MQTT 3.1.1 and 5.0 broker for fair, bounded delivery.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Look at and check configuration.", no_args_is_help=True)
app.add_typer(config_app, name="config")

_errors = Console(stderr=True, soft_wrap=True, highlight=False)

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML file; without it, TCP on loopback port 1883.")
]
Listen = Annotated[
    list[str] | None,
    typer.Option(
        "--listen", "-l", help="host:port to listen on instead of the configured listeners; may be repeated."
    ),
]
NodeName = Annotated[str | None, typer.Option(help="This broker's name in metrics and logs.")]
Anonymous = Annotated[
    bool | None,
    typer.Option("--allow-anonymous/--no-allow-anonymous", help="Let clients in without any authentication."),
]
MetricsDirectory = Annotated[Path | None, typer.Option(help="Export per-session metrics to this directory.")]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error.")]
LogFormat = Annotated[str | None, typer.Option(help="console or json.")]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"sluice {__version__}")
        raise typer.Exit


@app.command()
def run(
    config_file: ConfigFile = None,
    listen: Listen = None,
    node_name: NodeName = None,
    allow_anonymous: Anonymous = None,
    metrics_directory: MetricsDirectory = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    developer_gate: Annotated[bool, typer.Option("--developer-gate/--no-developer-gate", hidden=True)] = True,
) -> None:
    """Serve MQTT clients until interrupted."""
    flags = _flags(listen, node_name, allow_anonymous, metrics_directory, log_level, log_format)
    loaded = _load(config_file, flags)
    configure(loaded.config.log)
    try:
        _serve(Server(loaded.config, gate=developer_gate))
    except OSError as error:
        _errors.print(f"sluice: {error}")
        raise typer.Exit(CANNOT_SERVE) from None


@config_app.command("show")
def show(
    config_file: ConfigFile = None,
    listen: Listen = None,
    node_name: NodeName = None,
    allow_anonymous: Anonymous = None,
    metrics_directory: MetricsDirectory = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Print the effective configuration, and where each value came from."""
    flags = _flags(listen, node_name, allow_anonymous, metrics_directory, log_level, log_format)
    print(config.render(_load(config_file, flags)))


@config_app.command("check")
def check(file: Annotated[Path, typer.Argument(help="YAML file to check.")]) -> None:
    """Report every mistake in a configuration file, with its path and what would be right."""
    problems = config.check(file)
    for problem in problems:
        _errors.print(str(problem))
    if problems:
        raise typer.Exit(CONFIG_PROBLEM)
    print(f"{file}: no mistakes found")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False
)
def report(context: typer.Context) -> None:
    """Turn exported metrics into the fairness report (PySpark; needs `sluice-mqtt[report]`)."""
    command = [sys.executable, "-m", "spark_jobs", "report", *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def main() -> None:
    """Entry point of the `sluice` command."""
    app(prog_name="sluice")


def _serve(server: Server) -> None:
    """Run the server on uvloop, or on asyncio's own loop where that is missing."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(server.run())
    else:
        uvloop.run(server.run())


def _flags(
    listen: list[str] | None,
    node_name: str | None,
    allow_anonymous: bool | None,
    metrics_directory: Path | None,
    log_level: str | None,
    log_format: str | None,
) -> dict[str, object]:
    """The flags that were given, by the dotted path of the key that each sets."""
    listeners = None
    if listen:
        listeners = [{"name": f"flag{number}", "bind": bind} for number, bind in enumerate(listen, 1)]
    given: dict[str, object] = {
        "listeners": listeners,
        "node_name": node_name,
        "allow_anonymous": allow_anonymous,
        "metrics.directory": metrics_directory,
        "log.level": log_level,
        "log.format": log_format,
    }
    return {path: value for path, value in given.items() if value is not None}


def _load(path: Path | None, flags: dict[str, object]) -> config.Loaded:
    try:
        return config.load(path, flags=flags)
    except config.ConfigError as error:
        _errors.print(f"sluice: {error}")
        raise typer.Exit(CONFIG_PROBLEM) from None
