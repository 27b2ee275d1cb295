"""Who tries passwords is slowed, then refused; who knows one is not."""

import pytest

from broker.auth.authenticators import guard as module
from broker.auth.authenticators.authenticator import Answer, Login, No
from broker.auth.authenticators.chain import Chain
from broker.auth.authenticators.failures import FIRST_DELAY, LONGEST_DELAY, MOST_KEYS, MOST_REFUSED, Failures
from broker.auth.authenticators.guard import MOST_PLACES, Guard
from broker.auth.identity import Identity
from protocol import reason_codes
from protocol.errors import MQTTError

SECOND = 1_000_000
PERIOD = 60 * SECOND


def login(user: str = "ann", host: str = "10.0.0.1", password: bytes = b"wrong") -> Login:
    """A login from an address."""
    return Login(user, password, "", "tcp", host)


def fail(guard: Guard, one: Login, times: int, now: int = 0) -> list[int]:
    """Fail so many times; returns the delays."""
    return [guard.failed(one, now) for _ in range(times)]


def test_delays_grow() -> None:
    """The first half of a limit costs nothing, then each failure doubles the delay, up to 5 s."""
    delays = fail(Guard(0, 20, PERIOD), login(), 20)
    assert delays[:11] == [0] * 10 + [FIRST_DELAY]
    assert delays[10:15] == [FIRST_DELAY << step for step in range(5)]
    assert delays[-1] == max(delays) == LONGEST_DELAY


def test_user_is_refused_everywhere_else() -> None:
    """Past its limit a user name is refused from every address, until the period is over; others are not."""
    guard = Guard(0, 4, PERIOD)
    for number in range(4):
        fail(guard, login(host=f"10.0.0.{number}"), 1)
    assert guard.refusal(login(host="10.9.9.9"), PERIOD - 1) == "too many failed logins of this user"
    assert guard.refusal(login("ben", "10.0.0.1"), 0) == ""
    assert guard.refusal(login(host="10.9.9.9"), PERIOD) == ""


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("", "", False),
    ],
)
def test_address_is_refused(first: str, second: str, same: bool) -> None:
    """Past its limit an address, or network of IPv6, is refused for every user; a client without one is not."""
    guard = Guard(4, 0, PERIOD)
    for number in range(4):
        fail(guard, login(f"user{number}", first), 1)
    assert (guard.refusal(login("zoe", second), 0) != "") == same


def test_known_user_is_not_locked_out() -> None:
    """A user who has logged in from an address is let in from there, whoever fails elsewhere or beside it."""
    guard = Guard(4, 4, PERIOD)
    guard.succeeded(login(), "ann")
    fail(guard, login("ben"), 5)  # the same address
    fail(guard, login(host="10.9.9.9"), 5)  # the same user
    assert guard.refusal(login(), 0) == ""
    assert guard.refusal(login("zoe"), 0) != ""
    fail(guard, login(), 4)
    assert guard.refusal(login(), 0) == "too many failed logins of this user from this address"
    assert guard.refusal(login(), PERIOD) == ""
    fail(guard, login(), 3, PERIOD)
    guard.succeeded(login(), "ann")
    fail(guard, login(), 3, PERIOD)
    assert guard.refusal(login(), PERIOD) == ""


def test_no_limits() -> None:
    """Limits of 0 count nothing."""
    guard = Guard(0, 0, PERIOD)
    assert set(fail(guard, login(), 1000)) == {0}
    assert guard.refusal(login(), 0) == ""


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many names are tried, the tables keep the last ones only."""
    failures = Failures(2, PERIOD)
    for number in range(MOST_KEYS + 5):
        failures.add(number, 0)
    assert len(failures) == MOST_KEYS
    failures.add(MOST_KEYS, 0)
    assert failures.refused(MOST_KEYS, 0)
    assert not failures.refused(0, 0)
    monkeypatch.setattr(module, "MOST_KNOWN", 3)
    guard = Guard(1, 1, PERIOD)
    for number in range(4):
        guard.succeeded(login(f"user{number}"), f"user{number}")
    fail(guard, login("other"), 1)
    assert [guard.refusal(login(f"user{number}"), 0) == "" for number in range(4)] == [False, True, True, True]


def test_refused_is_not_forgotten() -> None:
    """However many others fail in its period, a refused user stays refused, as long as few of them are refused too."""
    guard = Guard(0, 2, PERIOD)
    fail(guard, login(), 2)
    for number in range(2 * MOST_KEYS):
        fail(guard, login(f"user{number}", ""), 1, PERIOD - 1)
    assert guard.refusal(login(), PERIOD - 1) != ""
    for number in range(MOST_REFUSED):
        fail(guard, login(f"other{number}", ""), 2, PERIOD - 1)
    assert guard.refusal(login(), PERIOD - 1) != ""


def test_full_of_refused_ones() -> None:
    """A table that is full of refused keys forgets the oldest, and still counts thousands of others."""
    failures = Failures(1, PERIOD)
    for number in range(MOST_KEYS + 1):
        failures.add(number, 0)
    assert [failures.refused(number, 0) for number in (0, 1, MOST_KEYS)] == [False, True, True]
    failures = Failures(2, PERIOD)
    for number in range(MOST_KEYS):
        for _ in range(2):
            failures.add(number, 0)
    others = range(MOST_KEYS, MOST_KEYS + MOST_KEYS - MOST_REFUSED)
    for number in others:
        failures.add(number, 0)
    for number in others:
        failures.add(number, 0)
    assert len(failures) == MOST_KEYS
    assert all(failures.refused(number, 0) for number in others)


def test_room_of_those_whose_period_is_over() -> None:
    """Refused keys whose period is over go first."""
    failures = Failures(2, PERIOD)
    for number in range(MOST_REFUSED):
        for _ in range(2):
            failures.add(number, 0)
    for number in range(MOST_REFUSED, MOST_KEYS + MOST_REFUSED):
        failures.add(number, PERIOD)
    for number in range(MOST_REFUSED, MOST_KEYS + MOST_REFUSED):
        failures.add(number, PERIOD)
    assert all(failures.refused(number, PERIOD) for number in range(MOST_REFUSED, MOST_KEYS + MOST_REFUSED))


def test_a_user_takes_no_room_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many client ids and addresses one user logs in with, the others stay known, and its last ones."""
    monkeypatch.setattr(module, "MOST_KNOWN", MOST_PLACES + 1)
    guard = Guard(1, 1, PERIOD)
    guard.succeeded(login(), "ann")
    eves = [Login("", b"token", f"random{number}", "tcp", "10.0.0.1") for number in range(100)]
    for eve in eves:
        guard.succeeded(eve, "eve")
    fail(guard, login("other"), 1)
    assert guard.refusal(login(), 0) == ""
    assert [guard.refusal(eve, 0) == "" for eve in eves] == [False] * (100 - MOST_PLACES) + [True] * MOST_PLACES


def test_passwords_without_a_user_name() -> None:
    """A password or token alone counts for its client id, so that one who guesses does not shut out all others."""
    guard = Guard(0, 2, PERIOD)
    guessing, other, nobody = (Login("", b"x", name, "tcp", "10.0.0.1") for name in ("a", "b", ""))
    fail(guard, guessing, 2)
    fail(guard, nobody, 5)
    elsewhere = [Login("", b"x", name, "tcp", "10.0.0.2") for name in ("a", "b", "")]
    assert [guard.refusal(each, 0) != "" for each in (guessing, other, nobody)] == [True, False, True]
    assert [guard.refusal(each, 0) != "" for each in elsewhere] == [True, False, False]
    assert guard.refusal(login("a"), 0) == ""  # a user of that name is somebody else


class Counting:
    """Knows one password, and counts how often it was asked."""

    name = "test"
    asked_about_nameless = False

    def __init__(self) -> None:
        self.asked = 0

    async def authenticate(self, one: Login) -> Answer:
        self.asked += 1
        return Identity(one.username) if one.password == b"right" else No.NOT_MINE


async def test_chain() -> None:
    """A refused login is not looked at, whether its password is right or not, and the answer says so."""
    authenticator = Counting()
    chain = Chain([authenticator], Guard(0, 2, PERIOD), lambda: 0)
    codes = []
    for password in (b"wrong", b"wrong", b"wrong", b"right"):
        with pytest.raises(MQTTError) as caught:
            await chain.ask(login(password=password))
        codes.append(caught.value.reason_code)
    bad, limited = reason_codes.BAD_USER_NAME_OR_PASSWORD, reason_codes.CONNECTION_RATE_EXCEEDED
    assert codes == [bad, bad, limited, limited]
    assert authenticator.asked == 2
    assert await chain.ask(login("ben", password=b"right")) == Identity("ben")
