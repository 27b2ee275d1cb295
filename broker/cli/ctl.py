"""The commands `sluice ctl ...`: they see and change a running broker through its admin API."""

import hashlib
import json
import secrets
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from broker.admin.client import PREFIX, QUICK, TIMEOUT, AdminError, ask
from broker.cli.bridges import bridges
from broker.cli.settings import configuration, listeners
from broker.cli.socket import ConfigFile, Socket, socket_path
from broker.cli.trace import trace
from config.value_types import check_name

TOKEN_BYTES: Final = 32
"""Random bytes of a token: nobody guesses it, so its digest needs no salt."""

ctl_app = typer.Typer(help="Look at a running broker, and change it.", no_args_is_help=True)


FAILED: Final = 1
"""Exit status when there is no answer, or a refusal."""

ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID")]


ctl_app.command()(trace)
ctl_app.command()(listeners)
ctl_app.command()(configuration)
ctl_app.command()(bridges)


class List(StrEnum):
    """The lists of the API."""

    CLIENTS = "clients"
    SESSIONS = "sessions"
    SUBSCRIPTIONS = "subscriptions"
    GROUPS = "groups"
    ADDRESSES = "addresses"
    RETAINED = "retained"
    BRIDGES = "bridges"


class Role(StrEnum):
    """What a token allows."""

    VIEWER = "viewer"
    OPERATOR = "operator"


def _checked_name(name: str) -> str:
    try:
        check_name(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return name


@ctl_app.command()
def token(
    name: Annotated[str, typer.Argument(help="Its name in the audit log.", callback=_checked_name)],
    role: Annotated[Role, typer.Option(metavar="ROLE", help="viewer (reads) or operator (also acts).")] = Role.VIEWER,
) -> None:
    """Make a token for the admin API over TCP; print its entry.

    The broker's configuration holds only its digest: keep the token itself where it is used.
    """
    made = secrets.token_urlsafe(TOKEN_BYTES)
    print(f"# The token: {made}")
    # In quotes: YAML takes 7, true and null for something else than text.
    print(f"- name: {json.dumps(name)}\n  role: {role}\n  sha256: {hashlib.sha256(made.encode()).hexdigest()}")


@ctl_app.command("list")
def list_items(
    what: Annotated[
        List, typer.Argument(help="clients, sessions, subscriptions, groups, addresses, retained or bridges.")
    ],
    sort: Annotated[str | None, typer.Option(metavar="KEY", help="The order; a wrong one names all.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, max=1000, metavar="N", help="Items of a page.")] = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", metavar="NAME=VALUE", help="Such as connected=true; repeatable.")
    ] = None,
    after: Annotated[str | None, typer.Option(metavar="NEXT", help="`next` of the page before.")] = None,
    socket: Socket = None,
    config_file: ConfigFile = None,
) -> None:
    """Print a page of a list as JSON."""
    given = dict(_pair(text) for text in filters or [])
    query = {"sort": sort, "limit": limit, "after": after} | given
    _print(_ask(socket, config_file, "GET", f"/{what}", query))


@ctl_app.command()
def status(socket: Socket = None, config_file: ConfigFile = None) -> None:
    """Print what the broker is and does, as JSON."""
    _print(_ask(socket, config_file, "GET", "/broker", seconds=QUICK))


@ctl_app.command()
def health(socket: Socket = None, config_file: ConfigFile = None) -> None:
    """Print whether the broker works.

    The exit status is 1 if it does not, or does not answer.
    """
    _print(_ask(socket, config_file, "GET", "/health", prefix="", seconds=QUICK))


@ctl_app.command()
def ready(socket: Socket = None, config_file: ConfigFile = None) -> None:
    """Print whether clients should be sent to the broker.

    The exit status is 1 if not.
    """
    _print(_ask(socket, config_file, "GET", "/ready", prefix="", seconds=QUICK))


@ctl_app.command()
def session(client_id: ClientId, socket: Socket = None, config_file: ConfigFile = None) -> None:
    """Print one session as JSON, and what holds it back.

    It names what the session waits for, and the key of the configuration that holds it back.
    """
    _print(_ask(socket, config_file, "GET", f"/sessions/{_part(client_id)}", seconds=QUICK))


@ctl_app.command()
def disconnect(client_id: ClientId, socket: Socket = None, config_file: ConfigFile = None) -> None:
    """Disconnect a client.

    Its session lasts as long as it would without this.
    """
    _print(_ask(socket, config_file, "DELETE", f"/clients/{_part(client_id)}"))


@ctl_app.command()
def end(client_id: ClientId, socket: Socket = None, config_file: ConfigFile = None) -> None:
    """End a session.

    Its subscriptions end with it, and what waits in it is dropped.
    """
    _print(_ask(socket, config_file, "DELETE", f"/sessions/{_part(client_id)}"))


@ctl_app.command()
def drain(
    address: Annotated[str, typer.Argument(metavar="TOPIC")], socket: Socket = None, config_file: ConfigFile = None
) -> None:
    """Deliver all that waits for room in an address.

    Its limit is then exceeded.
    """
    _print(_ask(socket, config_file, "POST", "/addresses/drain", body={"address": address}))


@ctl_app.command()
def reconnect(
    bridge: Annotated[str, typer.Argument(metavar="BRIDGE", help="Its name.", callback=_checked_name)],
    socket: Socket = None,
    config_file: ConfigFile = None,
) -> None:
    """Disconnect a bridge, and have it connect at once.

    It begins with the first of its addresses.
    """
    _print(_ask(socket, config_file, "POST", f"/bridges/{bridge}/reconnect"))


@ctl_app.command()
def clear(
    topic_filter: Annotated[str, typer.Argument(metavar="FILTER")],
    socket: Socket = None,
    config_file: ConfigFile = None,
) -> None:
    """Remove the retained messages whose topics match a filter."""
    _print(_ask(socket, config_file, "DELETE", "/retained", {"topic_filter": topic_filter}))


@ctl_app.command()
def publish(
    topic: Annotated[str, typer.Argument()],
    payload: Annotated[str, typer.Argument(help="Text.")] = "",
    qos: Annotated[int, typer.Option(min=0, max=2)] = 0,
    retain: Annotated[bool, typer.Option("--retain", help="Keep it as the topic's retained message.")] = False,
    socket: Socket = None,
    config_file: ConfigFile = None,
) -> None:
    """Publish a message as the broker itself."""
    message = {"topic": topic, "payload": payload, "qos": qos, "retain": retain}
    _print(_ask(socket, config_file, "POST", "/publish", body=message))


@ctl_app.command("reload")
def reload_configuration(socket: Socket = None, config_file: ConfigFile = None) -> None:
    """Have the broker read its configuration again.

    Prints what has changed, and what needs a restart.
    """
    _print(_ask(socket, config_file, "POST", "/reload"))


def _ask(  # noqa: PLR0913, PLR0917 - those of `ask`, and where the broker is
    socket: Socket,
    file: ConfigFile,
    method: str,
    target: str,
    query: Mapping[str, object] | None = None,
    body: object = None,
    prefix: str = PREFIX,
    seconds: float = TIMEOUT,
) -> Any:
    """The answer; without one the command ends with FAILED. Standard error names cells that have not answered."""
    try:
        path = socket_path(socket, file)
        answer = ask(path, target, query, method=method, body=body, prefix=prefix, seconds=seconds)
    except AdminError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    for cell in answer.get("unanswered", ()):
        print(f"sluice: {path}: {cell}", file=sys.stderr)
    return answer


def _print(answer: object) -> None:
    """As JSON in ASCII: what clients send cannot control the terminal."""
    print(json.dumps(answer, indent=2))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"found {text}: write NAME=VALUE")
    return name, value


def _part(client_id: str) -> str:
    """A client id as part of a path."""
    try:
        return quote(client_id, safe="")
    except UnicodeEncodeError:
        wrong = client_id.encode(errors="surrogateescape")
        raise typer.BadParameter(
            f"found {repr(wrong)[1:]}, which is not UTF-8: client ids are", param_hint="CLIENT_ID"
        ) from None
