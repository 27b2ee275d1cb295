"""Addresses (URLs) of services that decide who a client is."""

from urllib.parse import urlsplit

from config.bind_address import parse


def is_safe(url: str) -> bool:
    """Whether nobody on the way can read or change what goes to an address and comes from it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        local = bool(host) and is_local(host)
    except ValueError:
        return False
    return bool(host) and parts.username is None and (parts.scheme == "https" or (parts.scheme == "http" and local))


def is_local(host: str) -> bool:
    """Whether a host is this machine. Raises ValueError for what is no host."""
    return parse(f"[{host}]:1" if ":" in host else f"{host}:1").is_loopback
