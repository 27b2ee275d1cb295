"""Logins that are tried at once: no more of them are compared than may fail, and the others wait in order."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from broker.auth.authenticators import failures
from broker.auth.authenticators.authenticator import Answer, Login, No
from broker.auth.authenticators.chain import Chain
from broker.auth.authenticators.guard import Guard
from broker.auth.identity import Identity
from protocol import reason_codes
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.errors import MQTTError
from tests.broker.conftest import Start
from tests.conformance.scram import CONTINUE, Scram, settings
from tests.support.broker.guarded import ask, expect_refusal
from tests.support.broker.login_service import login_service
from tests.support.broker.logins import log_in
from tests.support.waiting import until, wait_until
from tests.support.wire import WireClient

BAD, LIMITED = reason_codes.BAD_USER_NAME_OR_PASSWORD, reason_codes.CONNECTION_RATE_EXCEEDED
PERIOD = 60_000_000


def login(user: str, password: bytes, host: str = "10.0.0.1") -> Login:
    """A login from an address."""
    return Login(user, password, "", "tcp", host)


def one_at_a_time(url: str) -> dict[str, dict[str, object]]:
    """What has a service decide about one login of a user at a time: the first failure is the last."""
    return {
        "http": {"url": url, "cache_time": "0s", "timeout": "60s"},
        "failed_logins": {"per_user": 1, "per_address": "infinity"},
    }


class Holding:
    """Knows one password, and answers when it is let go."""

    name = "test"
    asked_about_nameless = False

    def __init__(self) -> None:
        self.asked: list[Login] = []
        self.at_once = 0
        self.most_at_once = 0
        self.let_go = asyncio.Event()

    async def authenticate(self, one: Login) -> Answer:
        self.asked.append(one)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.let_go.wait()
        await asyncio.sleep(0)  # a turn of the loop, in which others could come in
        self.at_once -= 1
        return Identity(one.username) if one.password == b"right" else No.DENIED


async def codes(chain: Chain, holding: Holding, logins: Sequence[Login]) -> list[int]:
    """The reason codes of logins that come at once; 0 = let in."""
    tasks = [asyncio.create_task(chain.ask(each)) for each in logins]
    await until(lambda: holding.asked != [])
    holding.let_go.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [each.reason_code if isinstance(each, MQTTError) else 0 for each in results]


@pytest.mark.parametrize("by_user", [True, False])
async def test_guesses_at_once(by_user: bool) -> None:
    """However many passwords are sent at once, only as many are compared as may fail: the right one comes too late."""
    holding = Holding()
    chain = Chain([holding], Guard(0, 4, PERIOD) if by_user else Guard(4, 0, PERIOD))
    guesses = [
        login("ann", b"wrong", f"10.0.0.{number}") if by_user else login(f"user{number}", b"wrong")
        for number in range(50)
    ]
    assert await codes(chain, holding, [*guesses, login("ann", b"right")]) == [BAD] * 4 + [LIMITED] * 47
    assert len(holding.asked) == 4


async def test_rightful_burst() -> None:
    """Clients that come at once from one address, with the right passwords, wait for each other; none is refused."""
    holding = Holding()
    chain = Chain([holding], Guard(5, 2, PERIOD))
    logins = [login(f"user{number}", b"right") for number in range(400)]
    assert await codes(chain, holding, logins) == [0] * 400
    assert holding.most_at_once == 5
    assert holding.asked == logins
    again = [login("user0", b"right", f"10.0.1.{number}") for number in range(100)]
    assert await codes(chain, holding, again) == [0] * 100


async def test_closed_while_it_waits() -> None:
    """A login whose connection is closed is not decided about; one that is decided about already still counts."""
    holding = Holding()
    chain = Chain([holding], Guard(0, 1, PERIOD))
    outcomes: list[object] = []
    turns = [chain.begin(login("ann", password), False, outcomes.append) for password in (b"right", b"wrong", b"right")]
    await until(lambda: holding.asked != [])
    turns[1].give_up()
    turns[0].give_up()
    holding.let_go.set()
    await until(lambda: len(outcomes) == 3)
    assert [each for each in outcomes if isinstance(each, Identity)] == [Identity("ann")] * 2
    assert [each.password for each in holding.asked] == [b"right", b"right"]


async def test_waiting_logins_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """More logins of one user than could be decided about in time are refused for now (0x89)."""
    monkeypatch.setattr(failures, "MOST_WAITING", 3)
    holding = Holding()
    chain = Chain([holding], Guard(0, 1, PERIOD))
    found = await codes(chain, holding, [login("ann", b"right")] * 5)
    assert found == [0, 0, 0, 0, reason_codes.SERVER_BUSY]


def test_guesses_at_once_in_a_broker(start: Start) -> None:
    """Passwords that are sent at once reach a service as often as may fail; a client that has gone costs none of it."""
    pytest.importorskip("aiohttp", reason="needs the extra `http`")
    go_on = threading.Event()
    with login_service() as service, ExitStack() as clients:
        service.decide = lambda body: (go_on.wait(60), (200 if body["password"] == "right" else 403, None))[1]
        own = {
            "http": {"url": service.url, "cache_time": "0s", "timeout": "60s"},
            "failed_logins": {"per_user": 3, "per_address": "infinity"},
            **settings(user="ann"),
        }
        broker = start(sections={"allow_anonymous": None, "authentication": own})
        address = broker.address()
        guessing = [clients.enter_context(log_in(address, "ann", f"guess{number}")) for number in range(3)]
        wait_until(lambda: service.at_once == 3, "three are asked about")
        guessing += [clients.enter_context(log_in(address, "ann", f"more{number}")) for number in range(20)]
        guessing.append(clients.enter_context(log_in(address, "ann", "right")))
        scram = Scram("ann")
        other = clients.enter_context(WireClient(address, 5))
        ask(other, scram)
        other.send(Auth(CONTINUE, scram.final(other.expect(Auth).properties)))
        with log_in(address, "ben", "right") as ben:  # is not kept waiting by the others
            go_on.set()
            assert ben.expect(Connack).reason_code == 0
        found = Counter(client.expect(Connack).reason_code for client in guessing)
        expect_refusal(other, LIMITED)
        assert found == {BAD: 3, LIMITED: 21}
        assert sum(each.body["username"] == "ann" for each in service.asked) == 3


def test_time_limit(start: Start) -> None:
    """A login that waits for its turn past mqtt.connect_timeout is closed, and nobody is asked about it any longer."""
    pytest.importorskip("aiohttp", reason="needs the extra `http`")
    go_on = threading.Event()
    with login_service() as service:
        service.decide = lambda _: (go_on.wait(60), (200, None))[1]
        own = one_at_a_time(service.url)
        sections = {"allow_anonymous": None, "authentication": own, "mqtt": {"connect_timeout": "2s"}}
        address = start(sections=sections).address()
        with log_in(address, "ann", "first") as first:
            wait_until(lambda: service.at_once == 1, "one is asked about")
            with log_in(address, "ann", "second") as second:
                assert second.expect_close() is None
            assert first.expect_close() is None
        with log_in(address, "ann", "third") as third:
            go_on.set()
            assert third.expect(Connack).reason_code == 0
        assert [each.body["password"] for each in service.asked] == ["first", "third"]


def test_scram_waits_for_its_turn(start: Start) -> None:
    """A login by SCRAM waits while logins by password of the same user are decided about, and is let in after them."""
    pytest.importorskip("aiohttp", reason="needs the extra `http`")
    go_on = threading.Event()
    with login_service() as service:
        service.decide = lambda _: (go_on.wait(60), (200, None))[1]
        own = {
            **one_at_a_time(service.url),
            **settings(user="ann"),
        }
        address = start(sections={"allow_anonymous": None, "authentication": own}).address()
        with log_in(address, "ann", "right") as first, WireClient(address, 5) as second:
            wait_until(lambda: service.at_once == 1, "one is asked about")
            scram = Scram("ann")
            ask(second, scram)
            second.send(Auth(CONTINUE, scram.final(second.expect(Auth).properties)))
            go_on.set()
            assert first.expect(Connack).reason_code == 0
            connack = second.expect(Connack)
            assert connack.reason_code == 0
            scram.check(connack.properties)
            second.publish("x", b"x")
            second.expect_nothing_more()


@pytest.mark.parametrize("password", ["wrong", "pencil"])
def test_scram_that_was_begun_before(start: Start, password: str) -> None:
    """Exchanges that were begun before the limit was reached are refused unread, right and wrong ones alike."""
    own = {"failed_logins": {"per_user": 3, "per_address": "infinity"}, **settings(user="ann")}
    address = start(sections={"allow_anonymous": None, "authentication": own}).address()
    with ExitStack() as clients:
        begun = []
        for secret in ("wrong", "wrong", "wrong", password):
            client, scram = clients.enter_context(WireClient(address, 5)), Scram("ann", secret)
            ask(client, scram)
            begun.append((client, scram.final(client.expect(Auth).properties)))
        for client, final in begun:
            client.send(Auth(CONTINUE, final))
            expect_refusal(client, LIMITED if client is begun[-1][0] else reason_codes.NOT_AUTHORIZED)
