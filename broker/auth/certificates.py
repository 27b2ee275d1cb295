"""The user of a client certificate: a name in it, or a text with such names in it."""

from re import compile as compile_regex
from typing import Any, Final

from broker.auth.claimed_name import shown
from broker.auth.identity import Identity
from protocol import reason_codes
from protocol.errors import MQTTError

SOURCE: Final = "certificate"

MOST_NAME: Final = 1_024
"""Characters of the longest name that is taken from a certificate."""

_PLACEHOLDER: Final = compile_regex(r"\{(cn|dns|email|uri)\}")
_KINDS: Final = {"dns": "DNS", "email": "email", "uri": "URI"}


def user_of(certificate: dict[str, Any], template: str) -> str:
    """The user name: `{cn}` is the common name, `{dns}`, `{email}` and `{uri}` the first alternative name of that kind.

    `certificate` as `SSLObject.getpeercert` returns it. Raises MQTTError if a name is missing, or is no text.
    """
    parts = _PLACEHOLDER.split(template)
    for position in range(1, len(parts), 2):
        found = _names(certificate, parts[position])
        if not found or not 0 < len(found[0]) <= MOST_NAME or not found[0].isprintable():
            raise MQTTError(reason_codes.NOT_AUTHORIZED, f"a client certificate without a usable {{{parts[position]}}}")
        parts[position] = found[0]
    return "".join(parts)


def identity_of(certificate: dict[str, Any], template: str, username: str | None, may_be_token: bool) -> Identity:
    """Who a client with this certificate is. Raises MQTTError if CONNECT has another user name.

    `may_be_token` as in `shown`.
    """
    user = user_of(certificate, template)
    if username and username != user:
        claimed = shown(username, may_be_token)
        raise MQTTError(reason_codes.NOT_AUTHORIZED, f"user name {claimed} with the certificate of {user!r:.80}")
    return Identity(user, frozenset(), SOURCE)


def common_name(certificate: dict[str, Any]) -> str:
    """The common name in a certificate; empty if there is none."""
    return "".join(_names(certificate, "cn")[:1])


def _names(certificate: dict[str, Any], kind: str) -> list[str]:
    if kind == "cn":
        parts = [part for relative in certificate.get("subject", ()) for part in relative]
        return [str(value) for name, value in parts if name == "commonName"]
    return [str(value) for name, value in certificate.get("subjectAltName", ()) if name == _KINDS[kind]]
