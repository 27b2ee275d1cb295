"""Explains failed TLS handshakes, with the setting to change."""

import ssl
from typing import Final

FIRST_BYTES: Final = 16
"""How many of a client's first bytes show whether they are TLS, and its highest version."""

_HANDSHAKE: Final = 0x16
"""Type of a TLS client's first record."""
_CLIENT_HELLO: Final = 0x01
_VERSIONS: Final = {b"\x03\x00": "SSL 3", b"\x03\x01": "TLS 1.0", b"\x03\x02": "TLS 1.1", b"\x03\x03": "TLS 1.2"}
_HTTP: Final = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ", b"CONNECT ", b"DELETE ", b"PATCH ", b"PRI * HTTP")

_CERTIFICATE: Final = {
    2: "its certificate is not signed by a known authority (cafile)",
    18: "its certificate is self-signed and not among the known authorities (cafile)",
    19: "its certificate is not signed by a known authority (cafile)",
    20: "its certificate is not signed by a known authority (cafile)",
    21: "its certificate is not signed by a known authority (cafile)",
    3: "there is no list of revoked certificates of its authority (crlfile)",
    12: "the list of revoked certificates of its authority has expired (crlfile)",
    9: "its certificate is not valid yet",
    10: "its certificate has expired",
    23: "its certificate has been revoked",
    26: "its certificate is not made for clients",
}
"""OpenSSL's X509_V_ERR_*."""

_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it sent no certificate, but one is required (require_client_certificate)",
    "NO_SHARED_CIPHER": "no cipher in common (ciphers)",
    "NO_SHARED_GROUPS": "no key exchange group in common (curve)",
    "NO_SUITABLE_KEY_SHARE": "no key exchange group in common (curve)",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "no signature algorithm in common",
    "NO_SHARED_SIGNATURE_ALGORITHMS": "no signature algorithm in common",
    "CALLBACK_FAILED": "it resumes a session, but clients with certificates are verified each time",
    "INAPPROPRIATE_FALLBACK": "it fell back to an older version of TLS than it supports",
}

_ALERTS: Final = {
    "UNKNOWN_CA": "it does not know the authority that signed our certificate",
    "BAD_CERTIFICATE": "our certificate is not valid to it",
    "CERTIFICATE_UNKNOWN": "our certificate is not acceptable to it",
    "CERTIFICATE_EXPIRED": "our certificate has expired",
    "CERTIFICATE_REVOKED": "our certificate has been revoked",
    "UNSUPPORTED_CERTIFICATE": "it does not support our kind of certificate",
    "UNRECOGNIZED_NAME": "it does not know the server's name",
    "PROTOCOL_VERSION": "it does not speak this version of TLS",
    "HANDSHAKE_FAILURE": "it found nothing in common",
    "INTERNAL_ERROR": "its TLS library says no more; often our certificate lacks the host name that it connects to",
    "USER_CANCELLED": "it cancelled the handshake",
}
"""Alerts of clients, by OpenSSL's names without TLSV1_ALERT_ or SSLV3_ALERT_."""


def why(error: ssl.SSLError, first: bytes, minimum: ssl.TLSVersion) -> str:
    """The reason as text. `first`: the client's first bytes; `minimum`: the listener's minimum TLS version."""
    other = not_tls(first)
    if other:
        return other
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _CERTIFICATE.get(error.verify_code, f"its certificate cannot be verified: {error.verify_message}")
    if reason in ("UNSUPPORTED_PROTOCOL", "VERSION_TOO_LOW", "NO_PROTOCOLS_AVAILABLE"):
        spoken = highest_version(first)
        if spoken:
            least = minimum.name.replace("TLSv1_", "TLS 1.")
            return f"it speaks {spoken} at most, and {least} is the least here (minimum_version)"
        return "no version of TLS in common (minimum_version)"
    for prefix in ("TLSV1_ALERT_", "SSLV3_ALERT_", "TLSV13_ALERT_", "TLSV1_"):
        if reason.startswith(prefix):
            alert = reason.removeprefix(prefix)
            return f"the client has refused: {_ALERTS.get(alert, alert.lower().replace('_', ' '))}"
    return _REASONS.get(reason) or reason.lower().replace("_", " ") or "TLS has failed"


def not_tls(first: bytes) -> str:
    """What the client seems to send instead of TLS; empty if it is TLS, or nothing has been received."""
    if not first or first[0] == _HANDSHAKE:
        return ""
    if first[0] == 0x10 and b"MQ" in first:
        return "its bytes are not TLS: they look like MQTT without TLS"
    if first.startswith(_HTTP):
        return "its bytes are not TLS: they look like an HTTP request"
    return "its bytes are not TLS"


def highest_version(first: bytes) -> str:
    """The version in the ClientHello's version field, at most 1.2; empty if it is unknown."""
    if len(first) >= 11 and first[0] == _HANDSHAKE and first[5] == _CLIENT_HELLO:
        return _VERSIONS.get(first[9:11], "")
    return ""
