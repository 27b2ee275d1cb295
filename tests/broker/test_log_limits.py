"""How many lines an event may have: floods of refused clients, tokens, operators and handshakes leave few of them."""

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log_limits import MOST_OF_CLIENT, MOST_SOURCES, PERIOD, LeftOut, LogLimits
from protocol.connack import Connack
from tests.broker.conftest import Start
from tests.support.broker.admin import request
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.logins import NO_LIMITS, log_in
from tests.support.broker.tokens import SECRET, public, token
from tests.support.brokers import Listener
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until

MOST: Final = 5
TRIES: Final = 12
LOG: Final = {"log": {"level": "info", "format": "json", "max_lines": MOST}}


def test_each_period() -> None:
    """So many lines of an event and source in a period; what was left out is told once, when it is over."""
    now = [0]
    limits = LogLimits(2, lambda: now[0])
    assert [limits.admit("refused", "tcp") for _ in range(5)] == [True, True, False, False, False]
    assert limits.admit("refused", "tls")
    assert limits.admit("other", "tcp")
    assert limits.take() == []
    now[0] = PERIOD
    assert limits.take() == [LeftOut("refused", "tcp", 3)]
    assert limits.take() == []
    assert limits.admit("refused", "tcp")
    limits.end()
    assert limits.take() == []


def test_the_next_line_ends_a_period_too() -> None:
    """What was left out is kept until somebody asks, although lines go on."""
    now = [0]
    limits = LogLimits(1, lambda: now[0])
    for _ in range(3):
        assert [limits.admit("refused", "") for _ in range(4)] == [True, False, False, False]
        now[0] += PERIOD
    assert limits.take() == [LeftOut("refused", "", 3)] * 3


def test_no_limit() -> None:
    """0: all lines are written, and nothing is remembered."""
    limits = LogLimits(0, lambda: 0)
    assert all(limits.admit("refused", "") for _ in range(1000))
    limits.end()
    assert limits.take() == []


def test_each_client() -> None:
    """Of the lines that a source may have, one client has a few; what it had too many is told with its name."""
    now = [0]
    limits = LogLimits(20, lambda: now[0])
    assert sum(limits.admit("connected", "tcp", "restless") for _ in range(100)) == MOST_OF_CLIENT
    assert [limits.admit("connected", "tcp", f"other {number}") for number in range(20)].count(True) == 15
    assert limits.admit("disconnected", "tcp", "restless")
    now[0] = PERIOD
    left_out = [LeftOut("connected", "tcp", 5), LeftOut("connected", "tcp", 100 - MOST_OF_CLIENT, "restless")]
    assert limits.take() == left_out
    assert limits.admit("connected", "tcp", "restless")


def test_many_clients() -> None:
    """Clients are told apart only while their source may have lines, so that the table stays small."""
    limits = LogLimits(20, lambda: 0)
    assert sum(limits.admit("connected", "tcp", str(number)) for number in range(10_000)) == 20
    limits.end()
    assert limits.take() == [LeftOut("connected", "tcp", 9_980)]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), max_size=200), st.sampled_from([0, 1, 5, 20]))
def test_lines_that_are_not_made(lines: list[tuple[str, bool]], most: int) -> None:
    """Whoever asks before a line is made leaves out the same lines, and as many are told, as if all had been made."""
    made, asked = LogLimits(most, lambda: 0), LogLimits(most, lambda: 0)
    for client_id, asks in lines:
        left_out = asks and asked.leaves_out("connected", "tcp", client_id)
        written = not left_out and asked.admit("connected", "tcp", client_id)
        assert made.admit("connected", "tcp", client_id) == written
    for limits in (made, asked):
        limits.end()
    assert made.take() == asked.take()


def test_many_sources() -> None:
    """Sources beyond the limit of the table count together, so that it stays small."""
    limits = LogLimits(1, lambda: 0)
    admitted = sum(limits.admit("refused", str(number)) for number in range(2 * MOST_SOURCES))
    assert admitted == MOST_SOURCES + 1


def strangers(address: Address) -> None:
    """Clients that do not speak MQTT, nor TLS."""
    for _ in range(TRIES):
        with socket.create_connection(address, timeout=20) as client, suppress(ConnectionError):
            client.sendall(bytes(100))
            while client.recv(100):
                pass


def forgers(address: Address) -> None:
    """Clients with forged tokens."""
    for _ in range(TRIES):
        with log_in(address, "ann", token(b"x" * 64, "HS256")) as client:
            assert client.expect(Connack).reason_code != 0


def check(broker: BrokerProcess, event: str, source: str, more: int = 0) -> None:
    """When the broker has stopped, its log has a few lines of the flood, the number of the rest, and `more` lines."""
    broker.stop()
    left_out = [line for line in events(broker, "log_throttled") if line["of"] == event]
    assert {(line["source"], line["level"]) for line in left_out} == {(source, "warning")}
    number = sum(line["left_out"] for line in left_out)
    assert number >= TRIES - 2 * MOST  # it may have been two periods
    assert len(events(broker, event)) + number == TRIES + more


@pytest.mark.parametrize("event", ["client_refused", "tls_handshake_failed", "token_refused"])
def test_floods_of_clients(start: Start, tmp_path: Path, certificates: Certificates, event: str) -> None:
    """A flood of refusals leaves a few lines, and then one with the number of the others."""
    own: dict[str, Any] = {}
    if event == "token_refused":
        jwt = {"algorithms": ["HS256"], "key_file": str(public(SECRET, tmp_path / "key"))}
        own = {"allow_anonymous": None, "authentication": {"jwt": jwt, **NO_LIMITS}}
    listener = Listener("tcp", certificates if event == "tls_handshake_failed" else None)
    broker = start((listener,), sections={**own, **LOG})
    (forgers if event == "token_refused" else strangers)(broker.address())
    check(broker, event, "tcp")


def test_each_listener(start: Start) -> None:
    """A flood at one listener does not hide what another one has to say."""
    broker = start((Listener("public"), Listener("plant")), sections=LOG)
    strangers(broker.address("public"))
    with socket.create_connection(broker.address("plant"), timeout=20) as client:
        client.sendall(bytes(100))
        wait_until(lambda: any(line["listener"] == "plant" for line in events(broker, "client_refused")), "its line")
    check(broker, "client_refused", "public", 1)


def test_what_operators_have_done(start: Start, tmp_path: Path) -> None:
    """No line of what was done is left out, among however many that say what was refused."""
    path = tmp_path / "a.sock"
    broker = start(sections={"admin": {"socket": str(path)}, **LOG})
    wait_for_event(broker, "admin_socket")
    for number in range(TRIES):
        assert request(path, f"/api/v1/sessions/nobody-{number}", "DELETE").status == 404
        assert request(path, "/api/v1/publish", "POST", {"topic": f"t/{number}"}).status == 200
    done = [line["target"] for line in events(broker, "audit") if line["action"] == "publish"]
    assert done == [f"t/{number}" for number in range(TRIES)]
    check(broker, "audit", events(broker, "audit")[0]["who"], TRIES)


def test_reload(start: Start, tmp_path: Path) -> None:
    """A changed limit applies at once."""
    path = tmp_path / "a.sock"
    broker = start(sections={"admin": {"socket": str(path)}, **LOG})
    wait_for_event(broker, "admin_socket")
    file = tmp_path / "sluice.yaml"
    file.write_text(file.read_text().replace(f"max_lines: {MOST}", "max_lines: infinity"))
    assert request(path, "/api/v1/reload", "POST").json["changed"] == ["log.max_lines"]
    strangers(broker.address())
    assert len(wait_for_event(broker, "client_refused", TRIES)) == TRIES
