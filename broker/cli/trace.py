"""`sluice ctl trace`: what happens to a client, a topic or an address, live."""

import json
import sys
from typing import Annotated, Any, Final

import typer

from broker.admin.client import AdminError, stream
from broker.cli.socket import ConfigFile, Socket, socket_path
from config.units import parse_duration

FAILED: Final = 1
"""Exit status when there is no answer, or a refusal."""


def trace(  # noqa: PLR0913, PLR0917 - each is an option
    client: Annotated[str | None, typer.Option("--client", metavar="CLIENT_ID", help="Of this client.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="FILTER", help="Messages with such topics.")] = None,
    address: Annotated[str | None, typer.Option("--address", metavar="IP", help="Of clients at this address.")] = None,
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long, up to 1h.")] = "1m",
    limit: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="How many lines.")] = 1000,
    payload: Annotated[bool, typer.Option("--payload", help="Show the first bytes of payloads.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print objects of JSON.")] = False,
    socket: Socket = None,
    config_file: ConfigFile = None,
) -> None:
    """Show packets and decisions live.

    Packets are received, sent, acknowledged; messages routed, gated, queued, dropped: each line says why. Passwords are
    never shown, payloads only if that is asked for. Example: sluice ctl trace --client pump-7 --for 5m
    """
    try:
        seconds = parse_duration(duration, bare_numbers=False, unlimited=False)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from None
    query = {"client_id": client, "topic_filter": topic, "address": address, "seconds": seconds}
    query |= {"limit": limit, "payload": payload}
    try:
        for line in stream(socket_path(socket, config_file), "/trace", query):
            print(json.dumps(line) if as_json else in_words(line), flush=True)
    except AdminError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        pass


def in_words(line: dict[str, Any]) -> str:
    """One line: what clients send cannot control the terminal."""
    time = str(line["at"]).partition("T")[2].removesuffix("+00:00")
    who = line["client_id"] or line["address"] or "-"
    if line["user"]:
        who += f" ({line['user']})"
    cell = f"cell {line['cell']}" if line.get("cell") else ""
    parts = [time, cell, who, line["event"], line["packet"], line["topic"], line["text"]]
    parts.append(f"({line['lost']} lines lost: read too slowly)" if line["lost"] else "")
    return "  ".join(_printable(str(part)) for part in parts if part)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)
