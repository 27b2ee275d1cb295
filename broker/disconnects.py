"""Why clients were disconnected: reason codes of MQTT 5, and two that it has none for.

The names are those of the standard, as in the log and in `sluice_clients_refused_total`.
"""

from typing import Final, final

from protocol import packet_types, reason_codes

LOST: Final = 0xFF
"""The client's stream has ended, or failed, without DISCONNECT."""
CLIENT_ERROR: Final = 0xFE
"""The client has sent DISCONNECT with a reason code of 0x80 or above."""

_OWN_NAMES: Final = {LOST: "Connection lost", CLIENT_ERROR: "Client error"}

_COMMON: Final = (
    reason_codes.NORMAL_DISCONNECTION,
    reason_codes.DISCONNECT_WITH_WILL_MESSAGE,
    reason_codes.UNSPECIFIED_ERROR,
    reason_codes.MALFORMED_PACKET,
    reason_codes.PROTOCOL_ERROR,
    reason_codes.NOT_AUTHORIZED,
    reason_codes.SERVER_SHUTTING_DOWN,
    reason_codes.KEEP_ALIVE_TIMEOUT,
    reason_codes.SESSION_TAKEN_OVER,
    reason_codes.PACKET_TOO_LARGE,
    reason_codes.QUOTA_EXCEEDED,
    reason_codes.ADMINISTRATIVE_ACTION,
    CLIENT_ERROR,
    LOST,
)
"""Counted from the start: a counter that begins at one hides its first disconnect from `increase`."""


def by_client(reason_code: int) -> int:
    """The reason of a DISCONNECT that a client has sent: its errors are not the broker's reasons."""
    return reason_code if reason_code < reason_codes.UNSPECIFIED_ERROR else CLIENT_ERROR


def reason_name(reason: int) -> str:
    """The name of a reason."""
    own = _OWN_NAMES.get(reason)
    return reason_codes.name(reason, packet_types.DISCONNECT) if own is None else own


@final
class Disconnects:
    """How many clients with a session were disconnected, by reason."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = dict.fromkeys(_COMMON, 0)

    def count(self, reason: int) -> None:
        """Count one."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
