"""What can be said about a plugin of Mosquitto: what Sluice has in place of what it asks."""

from typing import Final

CLOSED: Final = "Until you write rules, everything is denied on its listeners"

PLUGIN: Final = f"Sluice does not load Mosquitto's plugins, which decide who may do what. {CLOSED}"

_DYNAMIC: Final = "dynamic_security"
DYNAMIC: Final = (
    "dynamic security has users and roles in its own file: "
    f"write them anew, by `sluice user add` and as authorization.rules with `roles`. {CLOSED}"
)

_SERVICE: Final = "by a service of your own behind authentication.http"
_BACKENDS: Final = {
    "http": "authentication.http asks a service, which gets each login as JSON",
    "postgres": "authentication.postgres asks a database, for hashes as `sluice user` and mosquitto_passwd write them",
    "jwt": "authentication.jwt checks tokens by their keys",
    "files": "authentication.password_file and authorization.acl_file, with hashes of mosquitto_passwd",
} | dict.fromkeys(("mysql", "sqlite", "sqlite3", "mongo", "mongodb", "redis", "ldap", "grpc", "js", "plugin"), _SERVICE)
"""Backends of mosquitto-go-auth, and of mosquitto-auth-plug before it."""


def text(path: str) -> str:
    """What to say about the plugin of this path."""
    return DYNAMIC if _DYNAMIC in path else PLUGIN


def backends(value: str) -> str:
    """What to say about the backends that an authentication plugin asks."""
    names = [name for name in (each.strip().lower() for each in value.split(",")) if name]
    return "in Sluice: " + "; ".join(f"{name}: {_BACKENDS.get(name, 'no counterpart')}" for name in names)
