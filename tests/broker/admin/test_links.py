"""One-time links: each counts once and for a while, and so do the tokens that they are exchanged for."""

import pytest

from broker.admin import links
from broker.admin.links import CODE_LIFETIME, MOST, TOKEN_LIFETIME, Grant, Links

pytestmark = pytest.mark.once

GRANT = Grant("link of uid 1000", "viewer")


class Time:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0

    def read(self) -> int:
        """The time."""
        return self.now


def test_a_code_counts_once() -> None:
    """The first who has the code gets a token with what the link allows; nobody gets one by it again."""
    made = Links(Time().read)
    code = made.new_code(GRANT)
    exchanged = made.exchange(code)
    assert exchanged is not None
    assert (exchanged[1], made.find(exchanged[0])) == (GRANT, GRANT)
    assert made.exchange(code) is None
    assert made.find(code) is None


@pytest.mark.parametrize("wrong", ["", "x", "\udc80"])
def test_what_is_no_code(wrong: str) -> None:
    """Nothing else is a code or a token."""
    made = Links(Time().read)
    made.new_code(GRANT)
    assert (made.exchange(wrong), made.find(wrong)) == (None, None)


def test_old_codes_and_tokens() -> None:
    """A code that nobody has used counts for an hour, a token for twelve."""
    time = Time()
    made = Links(time.read)
    code, late = made.new_code(GRANT), made.new_code(GRANT)
    time.now = CODE_LIFETIME - 1
    exchanged = made.exchange(code)
    assert exchanged is not None
    time.now += 1
    assert made.exchange(late) is None
    time.now += TOKEN_LIFETIME - 2
    assert made.find(exchanged[0]) == GRANT
    time.now += 1
    assert made.find(exchanged[0]) is None


def test_all_are_revoked() -> None:
    """Afterwards neither what has been printed counts nor what browsers have, and new links do."""
    time = Time()
    made = Links(time.read)
    exchanged = made.exchange(made.new_code(GRANT))
    assert exchanged is not None
    code = made.new_code(GRANT)
    assert made.revoke() == 2
    assert (made.find(exchanged[0]), made.exchange(code)) == (None, None)
    made.new_code(GRANT)
    time.now = CODE_LIFETIME
    assert made.revoke() == 0
    assert made.exchange(made.new_code(GRANT)) is not None


def test_their_number_is_bounded() -> None:
    """Who makes very many links takes the oldest away, and no memory."""
    made = Links(Time().read)
    codes = [made.new_code(GRANT) for _ in range(MOST + 1)]
    assert made.exchange(codes[0]) is None
    assert made.exchange(codes[1]) is not None


def test_a_link_is_for_its_address() -> None:
    """The code is behind #, which no browser sends."""
    assert Links(Time().read).url("http://127.0.0.1:1/", GRANT).startswith("http://127.0.0.1:1/#code=")
    assert links.BYTES >= 16
