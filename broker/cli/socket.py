"""The admin socket of the broker that a command is about: its options, and where it is."""

import sys
from pathlib import Path
from typing import Annotated

import typer

import config
from broker.admin.client import AdminError, find
from broker.admin.socket import default_places
from broker.cli.options import CONFIG_PROBLEM
from config.admin import CHOSEN

Socket = Annotated[
    Path | None, typer.Option(metavar="PATH", help="The broker's admin socket, if it is not at the default path.")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="The broker's configuration, to find it by.")
]


def socket_path(given: Path | None, file: Path | None) -> Path:
    """The socket that is given, or else that of a broker on this machine with this configuration. Raises AdminError."""
    if given is not None:
        return given
    try:
        loaded = config.load(file).config
    except config.ConfigError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(CONFIG_PROBLEM) from None
    wanted = loaded.admin.socket
    if wanted is None:
        raise AdminError("a broker with this configuration has no admin socket: admin.socket is null")
    if wanted != CHOSEN:
        return Path(wanted)
    try:
        return find(default_places(loaded.node_name))
    except OSError as error:  # there is no directory for temporary files
        raise AdminError(str(error)) from None
