"""A bench as a command, in this process: to start one takes a second of a processor."""

from collections.abc import Callable

import typer
from typer.testing import CliRunner, Result


def invoked(main: Callable[..., None], *arguments: str) -> Result:
    """Run the command with these arguments, on a terminal that is wide enough for its messages."""
    app = typer.Typer()
    app.command()(main)
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"})
