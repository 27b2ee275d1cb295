"""The chain of authenticators: who is asked, what counts, and that a failure lets nobody in."""

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from broker.auth.authenticators.authenticator import Answer, Busy, Login, No
from broker.auth.authenticators.chain import GRID, Chain, Outcome
from broker.auth.authenticators.guard import Guard
from broker.auth.identity import Identity
from protocol import reason_codes
from protocol.errors import MQTTError

LOGIN = Login("ann", b"hunter2", "client", "tcp", "127.0.0.1")
ANN = Identity("ann", frozenset({"ops"}), "test")


class Fixed:
    """Answers the same to all, and counts how often it was asked."""

    def __init__(self, answer: Answer | Exception, asked_about_nameless: bool = True) -> None:
        self.asked_about_nameless = asked_about_nameless
        self.name = f"test {answer!r:.20}"
        self.asked: list[Login] = []
        self._answer = answer

    async def authenticate(self, login: Login) -> Answer:
        self.asked.append(login)
        await asyncio.sleep(0)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class FixedHashing(Fixed):
    """Compares passwords with hashes, or says so, and counts how often it has wasted the time of that."""

    def __init__(self, answer: Answer | Exception) -> None:
        super().__init__(answer, False)
        self.wasted = 0

    async def waste(self, _login: Login) -> None:
        self.wasted += 1


async def outcome(answers: Sequence[Answer | Exception]) -> tuple[Identity | int | None, list[bool]]:
    """What the chain decides, and who of it was asked."""
    chain = [Fixed(answer) for answer in answers]
    result: Identity | int | None
    message = ""
    try:
        result = await Chain(chain).ask(LOGIN)
    except MQTTError as error:
        result, message = error.reason_code, error.message
    assert "hunter2" not in message
    assert all(login is LOGIN for each in chain for login in each.asked)
    return result, [bool(each.asked) for each in chain]


@pytest.mark.parametrize(
    ("answers", "result", "asked"),
    [
        ([], reason_codes.BAD_USER_NAME_OR_PASSWORD, []),
        ([ANN], ANN, [True]),
        ([No.DENIED], reason_codes.BAD_USER_NAME_OR_PASSWORD, [True]),
        ([No.NOT_MINE], reason_codes.BAD_USER_NAME_OR_PASSWORD, [True]),
        ([No.NOT_MINE, ANN, No.DENIED], ANN, [True, True, False]),
        ([No.DENIED, ANN], reason_codes.BAD_USER_NAME_OR_PASSWORD, [True, False]),
        ([No.NOT_MINE, No.NOT_MINE], reason_codes.BAD_USER_NAME_OR_PASSWORD, [True, True]),
        ([Busy("later"), ANN], reason_codes.SERVER_BUSY, [True, False]),
        ([RuntimeError("hunter2"), ANN], reason_codes.SERVER_UNAVAILABLE, [True, False]),
        ([Identity("")], None, [True]),
    ],
    ids=str,
)
async def test_chain(answers: Sequence[Answer | Exception], result: Identity | int, asked: list[bool]) -> None:
    """The first yes or no counts, unknown to all means no, and who fails is not passed over."""
    assert await outcome(answers) == (result, asked)


@pytest.mark.parametrize(
    ("answers", "wasted"),
    [
        ([No.DENIED, No.NOT_MINE], [0, 0]),
        ([No.NOT_MINE, No.DENIED], [0, 0]),
        ([No.NOT_MINE, No.NOT_MINE], [1, 0]),
        ([No.NOT_MINE, ANN], [0, 0]),
    ],
    ids=str,
)
@pytest.mark.parametrize("service", [No.NOT_MINE, No.DENIED])
async def test_one_hash_for_each_denial(answers: Sequence[Answer], wasted: list[int], service: No) -> None:
    """A wrong password costs one hash, whoever knows the name or nobody: so the time does not tell who does."""
    hashing = [FixedHashing(answer) for answer in answers]
    chain = Chain([*hashing, Fixed(service)])
    began = asyncio.get_running_loop().time()
    if ANN in answers:
        assert await chain.ask(LOGIN) == ANN
    else:
        with pytest.raises(MQTTError):
            await chain.ask(LOGIN)
        assert asyncio.get_running_loop().time() - began >= GRID - 0.01  # the loop's clock is coarse
    assert [each.wasted for each in hashing] == wasted


@pytest.mark.parametrize(
    ("answer", "anonymous", "result"),
    [
        (ANN, False, ANN),
        (Identity(""), False, None),
        (No.DENIED, True, reason_codes.NOT_AUTHORIZED),
        (No.NOT_MINE, True, None),
        (No.NOT_MINE, False, reason_codes.NOT_AUTHORIZED),
        (RuntimeError(), True, reason_codes.SERVER_UNAVAILABLE),
    ],
    ids=str,
)
async def test_nameless(answer: Answer | Exception, anonymous: bool, result: Identity | int | None) -> None:
    """Who sends neither name nor password is let in by a yes, or where nobody says no and anonymous clients may come.

    Those who know users by their names only are not asked.
    """
    names_only, other = Fixed(No.DENIED, False), Fixed(answer)
    chain = Chain([names_only, other])
    assert chain.asked_about_nameless
    assert not Chain([names_only]).asked_about_nameless
    found: Identity | int | None
    try:
        found = await chain.ask(Login("", None, "client"), anonymous)
    except MQTTError as error:
        found = error.reason_code
    assert (found, names_only.asked, len(other.asked)) == (result, [], 1)


async def test_nameless_client_ids_that_are_guessed() -> None:
    """Who tries client ids is refused after a while, as who tries passwords is; who is nobody and may be, is not."""
    chain = Chain([Fixed(No.DENIED)], Guard(2, 0, 60_000_000), lambda: 0)
    codes = []
    for number in range(3):
        with pytest.raises(MQTTError) as caught:
            await chain.ask(Login("", None, f"guess{number}", host="10.0.0.1"))
        codes.append(caught.value.reason_code)
    assert codes == [reason_codes.NOT_AUTHORIZED] * 2 + [reason_codes.CONNECTION_RATE_EXCEEDED]
    open_to_all = Chain([Fixed(No.NOT_MINE)], Guard(2, 0, 60_000_000), lambda: 0)
    for number in range(4):
        assert await open_to_all.ask(Login("", None, f"c{number}", host="10.0.0.1"), True) is None


async def test_failure_is_logged_without_secrets() -> None:
    """The log says who has failed and where, and nothing that may quote a password."""
    with capture_logs() as logged:
        await outcome([RuntimeError("hunter2")])
    (event,) = logged
    assert event["event"] == "authenticator_failed"
    assert event["detail"].startswith("RuntimeError at ")
    assert "hunter2" not in str(logged)


async def test_begin() -> None:
    """The answer comes later, in the loop: an identity, or the refusal."""
    for answer in (ANN, No.DENIED):
        answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        Chain([Fixed(answer)]).begin(LOGIN, False, answered.set_result)
        assert not answered.done()
        result = await answered
        if answer is ANN:
            assert result == ANN
        else:
            assert isinstance(result, MQTTError)


def test_repr_has_no_password() -> None:
    """A login in a traceback or log does not show the password."""
    assert "hunter2" not in repr(LOGIN)
