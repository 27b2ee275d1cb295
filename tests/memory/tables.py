"""The tables that grow by what clients send, with the bytes that each may take, as in .github/SECURITY.md."""

from typing import Final

KIBIBYTE: Final = 1 << 10
MEBIBYTE: Final = 1 << 20

OF_STRANGERS: Final = {
    "connections without a session": 16 * MEBIBYTE,
    "a closed connection": 2 * KIBIBYTE,
    "failed logins": 8 * MEBIBYTE,
    "logins that have succeeded": 32 * MEBIBYTE,
    "answers about logins": 32 * MEBIBYTE,
    "take-overs that are logged": MEBIBYTE,
    "rates of connections": 16 * MEBIBYTE,
    "lines of the log that are counted": MEBIBYTE,
    "users at a limit that are logged": MEBIBYTE,
}
"""What anybody can fill who may connect."""

OF_CLIENTS: Final = {
    "verified passwords": 32 * MEBIBYTE,
    "an incomplete WebSocket frame": 2 * MEBIBYTE,
    "incomplete packets": 0,
    "a trace": 64 * MEBIBYTE,
    "an ended session": 16 * KIBIBYTE,
    "rows of ended sessions": 32 * MEBIBYTE,
    "subscriptions and wills": 0,
    "decisions of rules": 128 * KIBIBYTE,
    "topic aliases from a client": 128 * KIBIBYTE,
    "topic aliases to a client": 2 * MEBIBYTE,
    "cached topics": 128 * MEBIBYTE,
}
"""What clients can fill that have a session; 0: as much as `memory_watermark` says."""

TABLES: Final = {**OF_STRANGERS, **OF_CLIENTS}
