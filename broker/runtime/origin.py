"""Where a client comes from that a trusted proxy (PROXY protocol), or another cell, has passed on."""

from typing import Any, NamedTuple


class Origin(NamedTuple):
    """What the proxy says of the client."""

    host: str
    """Its IP address; empty if the proxy does not know it, or if it came by a Unix socket."""
    peer: str
    """The same with the port, for the log."""
    common_name: str = ""
    """The CN of its certificate, if it has sent one to the proxy and the proxy has verified it."""
    certificate: dict[str, Any] | None = None
    """The one that another cell of this broker has verified, in the form of `SSLObject.getpeercert`."""


def certificate_at_proxy(origin: Origin | None) -> dict[str, Any]:
    """What is known of the one that the proxy has verified, in the same form."""
    if origin is None or not origin.common_name:
        return {}
    return {"subject": ((("commonName", origin.common_name),),)}
