"""Other protocols, by the bytes that their connections begin with: what MQTT calls them would help nobody."""

from __future__ import annotations

from typing import Final

_TLS: Final = (
    "a TLS ClientHello, but this listener has no TLS: use the port of a listener with tls, or connect without TLS"
)
_HTTP: Final = "an HTTP request on an MQTT port"
_PROXY: Final = "a PROXY protocol header, which is not supported: have the proxy send none"
_SSH: Final = "an SSH client on an MQTT port"

# MQTT begins with 0x10, so that none of these can be meant as MQTT.
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
    """Say what these first bytes of a connection are, if another protocol begins so; else nothing."""
    for beginning, words in _BEGINNINGS:
        if data.startswith(beginning):
            return words
    return ""


def may_become(data: bytes) -> bool:
    """Whether more of the words that another protocol begins with may be on its way: some send them piece by piece."""
    if not data[:1].isalpha():  # the others come in one piece, and empty lines from anybody
        return False
    return any(len(data) < len(beginning) and beginning.startswith(data) for beginning, _ in _BEGINNINGS)
