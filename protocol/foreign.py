"""Recognises other protocols by their first bytes: an error message in MQTT's terms would not help."""

from __future__ import annotations

from typing import Final

_TLS: Final = (
    "a TLS ClientHello, but this listener has no TLS: use the port of a listener with tls, or connect without TLS"
)
_HTTP: Final = "an HTTP request on an MQTT port"
_PROXY: Final = (
    "a PROXY protocol header, which this listener does not expect: set its proxy_protocol, or have the proxy send none"
)
_SSH: Final = "an SSH client on an MQTT port"

# An MQTT connection begins with 0x10, so none of these can be MQTT.
_BEGINNINGS: Final[list[tuple[bytes, str]]] = [
    (b"\x16\x03", _TLS),
    (b"PROXY ", _PROXY),
    (b"\r\n\r\n\0\r\nQUIT\n", _PROXY),
    (b"SSH-", _SSH),
    (b"GET ", _HTTP),
    (b"POST ", _HTTP),
    (b"PUT ", _HTTP),
    (b"HEAD ", _HTTP),
    (b"OPTIONS ", _HTTP),
    (b"DELETE ", _HTTP),
    (b"PATCH ", _HTTP),
    (b"CONNECT ", _HTTP),
    (b"TRACE ", _HTTP),
    (b"PRI * HTTP/2", _HTTP),
]


def recognise(data: bytes) -> str:
    """Describe the other protocol that begins with these bytes; empty if there is none."""
    for beginning, description in _BEGINNINGS:
        if data.startswith(beginning):
            return description
    return ""


def may_become(data: bytes) -> bool:
    """Whether these may be the first bytes of a text protocol whose next ones have not arrived yet."""
    if not data[:1].isalpha():  # binary beginnings arrive in one piece, and an empty line identifies no protocol
        return False
    return any(len(data) < len(beginning) and beginning.startswith(data) for beginning, _ in _BEGINNINGS)
