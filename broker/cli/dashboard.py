"""The command `sluice dashboard`: a link that lets one browser look at a running broker."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from broker.admin.client import AdminError, ask
from broker.cli.socket import ConfigFile, Socket, socket_path

FAILED = 1
"""Exit status when there is no answer, or a refusal."""


class LinkRole(StrEnum):
    """What a link allows."""

    VIEWER = "viewer"
    OPERATOR = "operator"


def print_new_link(
    role: Annotated[
        LinkRole, typer.Option(metavar="ROLE", help="viewer (reads) or operator (also acts).")
    ] = LinkRole.OPERATOR,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Print none: revoke all links, and send their browsers away.")
    ] = False,
    socket: Socket = None,
    config_file: ConfigFile = None,
) -> None:
    """Print a link to the dashboard of a running broker.

    It lets one browser in, once, within an hour. No browser is started for it: all users see the arguments of programs.
    """
    try:
        path = socket_path(socket, config_file)
        if revoke:
            answer = ask(path, "/links", method="DELETE")
        else:
            answer = ask(path, "/links", method="POST", body={"role": role})
    except AdminError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    if revoke:
        print(f"Revoked: {answer['count']}")
    else:
        print_link(answer["url"])


def print_link(url: str) -> None:
    """Print a link, and for whom it is; not in the log, which others may read."""
    print(f"Dashboard, for one browser within an hour: {url}", flush=True)
