"""Rules between bridges: none takes over the connection of another one."""

from collections.abc import Mapping, Sequence
from typing import Any

from config.bridge import parse_address
from config.rules import BrokenRule

Entry = Mapping[str, Any]


def broken(bridges: Sequence[Entry], node_name: str | None) -> list[BrokenRule]:
    """Bridges with the client id of an earlier one at the same remote broker; keys that cannot be parsed are missing.

    `node_name`: None = it cannot be parsed.
    """
    problems: list[BrokenRule] = []
    for index, own in enumerate(bridges):
        for before, other in enumerate(bridges[:index]):
            client_id = _client_id(own, node_name)
            shared = _places(own) & _places(other)
            if client_id is None or client_id != _client_id(other, node_name) or not shared:
                continue
            if own.get("name") == other.get("name"):
                continue  # that is said already
            host, port, _ = min(shared)
            why = (
                f"found {client_id!r}, which is the client id of bridges[{before}] ({other.get('name')}) too, at the "
                f"same remote broker, {host}:{port}: each would take over the other's connection, for ever; "
                "give each bridge its own client_id, or leave it out for node_name, a hyphen and the bridge's name"
            )
            problems.append(BrokenRule(("bridges", index, "client_id"), why))
            break
    return problems


def _client_id(bridge: Entry, node_name: str | None) -> str | None:
    """The client id at the remote broker; None if it is not known, or the bridge is not there."""
    if "client_id" not in bridge or not bridge.get("enabled"):
        return None
    name = bridge.get("name")
    default = None if node_name is None or name is None else f"{node_name}-{name}"
    return bridge["client_id"] or default


def _places(bridge: Entry) -> set[tuple[str, int, str]]:
    """Where its remote brokers are; behind one port paths of WebSocket may lead to several."""
    addresses = [parse_address(text) for text in bridge.get("address", ())]
    return {(each.host.lower().rstrip("."), each.port, each.path) for each in addresses}
