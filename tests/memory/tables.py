"""The tables that grow by what clients send, with the bytes that each may take, as in .github/SECURITY.md."""

from typing import Final

KIBIBYTE: Final = 1 << 10
MEBIBYTE: Final = 1 << 20

OF_STRANGERS: Final = {
    "connections without a session": 16 * MEBIBYTE,
    "a closed connection": 2 * KIBIBYTE,
    "failed logins": 8 * MEBIBYTE,
    "logins that have succeeded": 32 * MEBIBYTE,
    "take-overs that are logged": MEBIBYTE,
}
"""What anybody can fill who may connect."""

TABLES: Final = {**OF_STRANGERS}
