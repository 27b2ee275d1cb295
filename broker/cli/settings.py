"""`sluice ctl listeners` and `sluice ctl configuration`: how a broker is set that runs, and where from."""

import json
import sys
from typing import Annotated, Any, Final

import typer

from broker.admin.client import AdminError, ask_list
from broker.cli.socket import ConfigFile, Socket, socket_path

FAILED: Final = 1
"""Exit status when there is no answer, or a refusal."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def listeners(as_json: AsJson = False, socket: Socket = None, config_file: ConfigFile = None) -> None:
    """Print where clients can connect.

    It lists each socket of each listener, also those that a reload has opened.
    """
    found = _ask("/listeners", socket, config_file)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for each in found:
        host = each["host"] or ""
        place = each["path"] or f"{f'[{host}]' if ':' in host else host}:{each['port']}"
        kind = ["TLS"] * each["tls"]
        kind += [f"WebSocket {', '.join(each['websocket'])}"] if each["websocket"] else []
        kind += ["PROXY protocol"] * each["proxy_protocol"]
        print("  ".join([each["name"], place, ", ".join(kind) or "plain"]))


def configuration(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Only this key, or this section.")] = "",
    changed: Annotated[bool, typer.Option("--changed", help="Only what is not the default.")] = False,
    as_json: AsJson = False,
    socket: Socket = None,
    config_file: ConfigFile = None,
) -> None:
    """Print the values that apply, and where each comes from.

    There is a line for each key; secrets are hidden.

    It may differ from the file, as long as what a reload could not change waits for a restart.
    """
    found = [each for each in _ask("/configuration", socket, config_file) if _within(each["key"], key)]
    if key and not found:
        print(f"sluice: there is no key {key}", file=sys.stderr)
        raise typer.Exit(FAILED)
    shown = [each for each in found if not (changed and _is_default(each["source"]))]
    if as_json:
        print(json.dumps(shown, indent=2))
        return
    lines = [(f"{each['key']}: {json.dumps(each['value'])}", each["source"]) for each in shown]
    width = max((len(text) for text, _ in lines), default=0)
    for text, source in lines:
        print(f"{text:<{width}}  # {source or 'not known'}")


def _within(key: str, wanted: str) -> bool:
    """Whether a key is the wanted one, or in that section or list."""
    return not wanted or key == wanted or key.startswith((f"{wanted}.", f"{wanted}["))


def _ask(target: str, socket: Socket, file: ConfigFile) -> list[dict[str, Any]]:
    try:
        return ask_list(socket_path(socket, file), target)
    except AdminError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None


def _is_default(source: str) -> bool:
    """Whether a value has not been set; behind a colon is what this machine makes of it."""
    return source == "default" or source.startswith("default: ")
