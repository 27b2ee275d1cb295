"""Which user names may be written that clients claim."""

import pytest

from broker.auth.claimed_name import HIDDEN, shown

HEADER, CLAIMS = "eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiJhbm4ifQ"
TOKEN = f"{HEADER}.{CLAIMS}.c2VjcmV0"


@pytest.mark.parametrize(
    "username", [TOKEN, f" {TOKEN}", f"\n\t{TOKEN} ", f'"{TOKEN}"', f"Bearer {TOKEN}", TOKEN[:30], HEADER]
)
def test_tokens(username: str) -> None:
    """What is, or begins like, a token is not shown, whatever is in front of it."""
    assert shown(username, False) == HIDDEN


@pytest.mark.parametrize("username", ["ann", "HeyJude", "a.b.c", "", "x\n", "ey"])
def test_names(username: str) -> None:
    """Other names are shown, escaped; but none where clients send tokens as user names."""
    assert shown(username, False) == repr(username)
    assert shown(username, True) == HIDDEN


def test_long_names() -> None:
    """A name is cut."""
    assert shown("x" * 1_000, False) == repr("x" * 80)
