"""Limits of a host with several cells: connections, their rate by address, and failed logins count for all together."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.properties import Properties
from protocol.publish import Publish
from tests.conformance.scram import REAUTHENTICATE, Scram
from tests.support.broker.cells import at_home, events, kill_cell, start_cells
from tests.support.broker.guarded import (
    GUARDED,
    answer,
    ask,
    authenticated,
    expect_disconnect,
    expect_refusal,
    reauthenticate,
)
from tests.support.broker.logins import sections, write_users
from tests.support.broker.reloads import rewrite
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

CELLS = (1, 2)
MOST = 6
FULL = reason_codes.QUOTA_EXCEEDED


def asks(broker: BrokerProcess, client_id: str) -> WireClient:
    """A client that has sent CONNECT."""
    client = WireClient(broker.address(), 5)
    client.send(Connect(client_id, version=5))
    return client


def code(client: WireClient) -> int:
    """The answer to CONNECT."""
    return client.expect(Connack).reason_code


def names(name: str) -> Iterator[str]:
    """Client ids of both cells by turns."""
    for pair in zip(*(at_home(cell, name=name) for cell in CELLS), strict=True):
        yield from pair


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Two cells that serve six clients together."""
    with start_cells(tmp_path, sections={"mqtt": {"max_connections": MOST}}) as broker:
        yield broker


@contextmanager
def stopped_keeper(broker: BrokerProcess) -> Iterator[None]:
    """The keeper answers nothing meanwhile."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def fill(broker: BrokerProcess, stack: ExitStack, name: str, count: int = MOST) -> list[tuple[str, WireClient]]:
    """Connect so many clients, each as soon as there is a place for it."""
    found = []
    for client_id in islice(names(name), count):
        clients: list[WireClient] = []

        def connected(client_id: str = client_id, clients: list[WireClient] = clients) -> bool:
            client = stack.enter_context(asks(broker, client_id))
            clients.append(client)
            return code(client) == reason_codes.SUCCESS

        wait_until(connected, f"a place for {client_id}")
        found.append((client_id, clients[-1]))
    return found


# -- mqtt.max_connections


def test_connections_of_all_cells_count_together(limited: BrokerProcess) -> None:
    """Of 40 clients that come at once six get in; a place that is given back at one cell is free for the other."""
    with ExitStack() as stack:
        clients = {each: stack.enter_context(asks(limited, each)) for each in islice(names("m"), 40)}
        codes = {each: code(client) for each, client in clients.items()}
        assert sorted(codes.values()) == [reason_codes.SUCCESS] * MOST + [FULL] * (40 - MOST)
        inside = [each for each, answered in codes.items() if answered == reason_codes.SUCCESS]
        with asks(limited, inside[0]) as again:  # a take-over adds no connection
            assert code(again) == reason_codes.SUCCESS
            again.send(Publish(b"t", b"", 0))
            again.expect_nothing_more()
            for cell in CELLS:
                with asks(limited, next(at_home(cell, name="late"))) as late:
                    assert code(late) == FULL
        clients[inside[1]].disconnect()
        clients[inside[2]].close()
        fill(limited, stack, "next", 3)
        with asks(limited, next(at_home(2, name="late"))) as late:
            assert code(late) == FULL


def test_what_follows_connect_is_kept_while_it_waits(limited: BrokerProcess) -> None:
    """A client that sends everything at once, and closes, is served as if it had waited for CONNACK."""
    with ExitStack() as stack:
        ((_, subscriber),) = fill(limited, stack, "sub", 1)
        subscriber.subscribe("all/at/once", qos=1)
        for client_id in islice(names("once"), 20):
            with WireClient(limited.address(), 5) as client:
                client.send(Connect(client_id, version=5), Publish(b"all/at/once", client_id.encode(), 0))
                client.socket.shutdown(1)
                assert code(client) == reason_codes.SUCCESS
                assert subscriber.receive_message().payload == client_id.encode()
                client.expect_close()
            wait_until(lambda: len(events(limited, "connected")) == len(events(limited, "disconnected")) + 1, "its end")


def test_the_places_of_a_killed_cell_are_free_again(limited: BrokerProcess) -> None:
    """Clients of the other cell get them; those that are connected there keep theirs."""
    with ExitStack() as stack:
        clients = fill(limited, stack, "k")
        kill_cell(limited, 0)
        stays = [client for client_id, client in clients if client_id in _first(2)]
        for client in stays:
            client.expect_nothing_more()
        fill(limited, stack, "new", MOST - len(stays))
        for cell in CELLS:
            with asks(limited, next(at_home(cell, name="late"))) as late:
                assert code(late) == FULL


def _first(cell: int) -> list[str]:
    ids = at_home(cell, name="k")
    return [next(ids) for _ in range(MOST)]


def test_a_reload_sets_the_limit(tmp_path: Path) -> None:
    """Clients that are connected already count; when the limit goes, any number may connect."""
    with start_cells(tmp_path) as broker, ExitStack() as stack:
        clients = fill(broker, stack, "r")

        def reload(**mqtt: Any) -> None:
            before = len(events(broker, "reloaded"))
            rewrite(broker, mqtt=mqtt)
            os.kill(broker.pid, signal.SIGHUP)
            wait_until(lambda: len(events(broker, "reloaded")) == before + len(CELLS), "both cells")

        def codes() -> list[int]:
            found = []
            for cell in CELLS:
                with asks(broker, next(at_home(cell, name="x"))) as client:
                    found.append(code(client))
            return found

        reload(max_connections=MOST)
        wait_until(lambda: codes() == [FULL] * 2, "the limit")
        clients[0][1].disconnect()
        wait_until(lambda: reason_codes.SUCCESS in codes(), "a place")
        reload(max_connections="infinity")
        assert codes() == [reason_codes.SUCCESS] * 2


def test_a_keeper_that_does_not_answer_lets_nobody_exceed_the_limit(limited: BrokerProcess) -> None:
    """New clients are told that the server is unavailable (0x88), and the log says why; later nothing is lost of it."""
    with ExitStack() as stack:
        fill(limited, stack, "before", MOST - 1)
        with stopped_keeper(limited):
            for cell in CELLS:
                with asks(limited, next(at_home(cell, name="s"))) as client:
                    assert code(client) == reason_codes.SERVER_UNAVAILABLE
        assert events(limited, "keeper_unanswered")
        fill(limited, stack, "after", 1)
        with asks(limited, next(at_home(1, name="late"))) as late:
            assert code(late) == FULL


# -- quotas


def keeps(broker: BrokerProcess, client_id: str, expiry: int = 1_000) -> int:
    """The answer to a CONNECT that has its session kept."""
    with WireClient(broker.address(), 5) as client:
        properties: Properties = {props.SESSION_EXPIRY_INTERVAL: expiry}
        client.send(Connect(client_id, expiry == 0, version=5, properties=properties))
        answered = code(client)
        if answered == reason_codes.SUCCESS:
            client.disconnect()
        return answered


def test_the_connections_of_a_user_count_at_all_cells(tmp_path: Path) -> None:
    """FC-31: of twenty clients of a user that come at once three get in, and others when these have gone."""
    sections = {"quotas": [{"max_connections": 3}]}
    with start_cells(tmp_path, sections=sections) as broker, ExitStack() as stack:
        clients = {each: stack.enter_context(asks(broker, each)) for each in islice(names("q"), 20)}
        codes = {each: code(client) for each, client in clients.items()}
        assert sorted(codes.values()) == [reason_codes.SUCCESS] * 3 + [FULL] * 17
        inside = [each for each, answered in codes.items() if answered == reason_codes.SUCCESS]
        with asks(broker, inside[0]) as again:  # a take-over adds no connection
            assert code(again) == reason_codes.SUCCESS
        for each in inside[1:]:
            clients[each].disconnect()
        fill(broker, stack, "then", 3)
        for cell in CELLS:
            with asks(broker, next(at_home(cell, name="late"))) as late:
                assert code(late) == FULL


def test_the_kept_sessions_of_a_user_count_at_all_cells(tmp_path: Path) -> None:
    """FC-31: those of the journal too, when a cell starts again; one that has ended makes room at any cell."""
    sections = {"quotas": [{"max_kept_sessions": 2}], "persistence": {"directory": str(tmp_path / "journal")}}
    with start_cells(tmp_path, sections=sections) as broker:
        first, second, third, fourth = islice(names("kept"), 4)
        assert [keeps(broker, each) for each in (first, second, third, first)] == [0, 0, FULL, 0]
        for position in range(len(CELLS)):
            kill_cell(broker, position)
            assert [keeps(broker, each) for each in (third, fourth, first, second)] == [FULL, FULL, 0, 0]
        assert keeps(broker, first, 0) == 0
        wait_until(lambda: keeps(broker, fourth) == 0, "room")
        assert keeps(broker, third) == FULL


# -- mqtt.max_connection_rate


def test_the_rate_of_an_address_is_one_of_the_host(tmp_path: Path) -> None:
    """Of clients of both cells that come at once from one address, as many are let in as with one process."""
    with start_cells(tmp_path, sections={"mqtt": {"max_connection_rate": 5}}) as broker, ExitStack() as stack:
        clients = [stack.enter_context(asks(broker, each)) for each in islice(names("rate"), 40)]
        codes = [code(client) for client in clients]
        assert 5 <= codes.count(reason_codes.SUCCESS) <= 10  # within a second, or two
        assert codes.count(reason_codes.CONNECTION_RATE_EXCEEDED) == 40 - codes.count(reason_codes.SUCCESS)


def test_a_keeper_that_does_not_answer_locks_nobody_out(tmp_path: Path) -> None:
    """Each cell counts rates and failed logins for itself meanwhile."""
    own = {**GUARDED["authentication"], "failed_logins": {"per_user": 4, "per_address": "infinity"}}
    limits = {"mqtt": {"max_connection_rate": 5}}
    with start_cells(tmp_path, sections={**GUARDED, "authentication": own, **limits}) as broker:
        with stopped_keeper(broker):
            for client_id in islice(names("u"), 4):
                with authenticated(broker.address(), client_id) as client:
                    client.expect_nothing_more()
        with authenticated(broker.address(), "then") as client:
            reauthenticate(client)


# -- authentication.failed_logins


def test_failed_logins_count_for_the_host(tmp_path: Path) -> None:
    """Four may fail, whatever cells they fail at; then the user is locked out at both, and others are let in."""
    own = {**GUARDED["authentication"], "failed_logins": {"per_user": 4, "per_address": "infinity"}}
    with start_cells(tmp_path, sections={**GUARDED, "authentication": own}) as broker, ExitStack() as stack:
        clients = {each: stack.enter_context(WireClient(broker.address(), 5)) for each in islice(names("f"), 12)}
        wrong = {each: Scram(password="x") for each in clients}
        for each, client in clients.items():
            ask(client, wrong[each], each)
        for each, client in clients.items():  # at once
            answer(client, wrong[each])
        codes = [code(client) for client in clients.values()]
        assert codes.count(reason_codes.NOT_AUTHORIZED) == 4
        assert codes.count(reason_codes.CONNECTION_RATE_EXCEEDED) == 8
        for cell in CELLS:
            with WireClient(broker.address(), 5) as client:
                scram = Scram()
                ask(client, scram, next(at_home(cell, name="right")))
                answer(client, scram)
                expect_refusal(client, reason_codes.CONNECTION_RATE_EXCEEDED)
            with authenticated(broker.address(), next(at_home(cell, name="other")), user="ben") as other:
                other.expect_nothing_more()


def test_who_has_logged_in_may_do_so_again(tmp_path: Path) -> None:
    """A re-authentication asks the keeper, too; a wrong password counts there, and ends the connection."""
    own = {**GUARDED["authentication"], "failed_logins": {"per_user": 2, "per_address": "infinity"}}
    with start_cells(tmp_path, sections={**GUARDED, "authentication": own}) as broker:
        for client_id in islice(names("again"), 2):
            with authenticated(broker.address(), client_id) as client:
                for _ in range(3):
                    reauthenticate(client)
                client.expect_nothing_more()
                wrong = Scram(password="x")
                client.send(Auth(REAUTHENTICATE, wrong.first()))
                answer(client, wrong)
                expect_disconnect(client, reason_codes.NOT_AUTHORIZED)


def test_passwords_count_for_the_host(tmp_path: Path) -> None:
    """The same of user names and passwords in CONNECT: the right one is not read any more once two have failed."""
    own = sections(write_users(tmp_path / "users"))
    own["authentication"]["failed_logins"] = {"per_user": 2, "per_address": "infinity"}
    with start_cells(tmp_path, sections=own) as broker:
        codes = []
        for client_id, password in zip(names("p"), (b"a", b"b", b"c", b"correct horse"), strict=False):
            with WireClient(broker.address(), 5) as client:
                client.send(Connect(client_id, username="ann", password=password, version=5))
                codes.append(code(client))
        assert codes == [reason_codes.BAD_USER_NAME_OR_PASSWORD] * 2 + [reason_codes.CONNECTION_RATE_EXCEEDED] * 2
