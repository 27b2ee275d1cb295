"""Addresses (URLs) of services that decide who a client is."""

import re
from typing import Final
from urllib.parse import urlsplit

from config.bind_address import parse

HIDDEN: Final = "***"
"""Replaces a secret."""

_URL: Final = re.compile(r"https?://\S+")
_USER: Final = re.compile(r"(?<=://)[^/]*@")


def refusal(url: str) -> str:
    """Why an address must not be used; empty = nobody on the way can read or change what goes there and comes back.

    It is not quoted: there may be a password in it.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        secure = bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_local(host)))
    except ValueError:
        secure = False
    if not secure:
        return "write an https address (http only on this machine)"
    return "" if parts.username is None else "write the address without a user name and a password"


def masked(url: str) -> str:
    """An address as people may see it: without user name, password and the values of its query."""
    head, mark, query = url.partition("?")
    shown = "&".join(_masked_pair(pair) for pair in query.split("&"))
    return _USER.sub(f"{HIDDEN}@", head) + mark + (shown if query else "")


def masked_in(text: str, url: str) -> str:
    """A text, such as of an error, that may quote this address, or what a library has made of it."""
    return _URL.sub(lambda found: masked(found[0]), text.replace(url, masked(url)))


def _masked_pair(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}={HIDDEN}" if equals else HIDDEN


def is_local(host: str) -> bool:
    """Whether a host is this machine. Raises ValueError for what is no host."""
    return parse(f"[{host}]:1" if ":" in host else f"{host}:1").is_loopback
