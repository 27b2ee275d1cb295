"""One cell: the client logs in, subscribes and publishes; with a wrong secret it is refused."""

import sys
from types import TracebackType
from typing import Self

from tests.clients.agent import Agent, AgentError, Received
from tests.clients.catalogue import CLIENTS
from tests.clients.logins import users
from tests.clients.logins.place import Place
from tests.clients.logins.table import Cell

SECONDS = 20.0
"""Within which a message has to come."""


class Agents:
    """Running agents, one of each client, used by one cell after another; as a context manager they end with it."""

    def __init__(self) -> None:
        self._running: dict[str, Agent] = {}

    def take(self, name: str) -> Agent:
        """Return the one of a client, which is not connected."""
        agent = self._running.pop(name, None)
        if agent is None or not agent.fresh:
            if agent is not None:
                agent.close()
            agent = _chromium() if name == "chromium" else CLIENTS[name].agent()
        self._running[name] = agent
        return agent

    def drop(self, name: str) -> None:
        """End one in an unknown state."""
        self._running.pop(name).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for agent in self._running.values():
            agent.close()


def run(cell: Cell, place: Place, agents: Agents) -> None:
    """Run a cell; AssertionError says what was wrong."""
    agent = agents.take(cell.client)
    try:
        _refused(cell, place, agent)
        _let_in(cell, place, agent)
    except BaseException:
        agents.drop(cell.client)
        raise
    place.broker.assert_healthy()


def _let_in(cell: Cell, place: Place, agent: Agent) -> None:
    link = place.link(cell)
    user = users.USERS[cell.method]
    agent.connect(link)
    agent.subscribe(f"of/{user}/{link.client_id}/#", 1)
    sent = Received(f"of/{user}/{link.client_id}/a", b"hello", 1, False)
    agent.publish(sent)
    came = agent.receive(1, SECONDS)
    assert came == [sent], f"{cell.name}: received {came}"
    agent.disconnect()
    assert not agent.lost, f"{cell.name}: {agent.lost[0]}"


def _refused(cell: Cell, place: Place, agent: Agent) -> None:
    link = place.link(cell, users.WRONG)
    refused: AgentError | None = None
    try:
        agent.connect(link)
        agent.subscribe(f"of/{users.USERS[cell.method]}/#", 1)  # mosquitto_sub connects here
    except AgentError as error:
        refused = error
    assert refused is not None, f"{cell.name}: let in with a wrong secret"
    expected = place.refusal(cell)
    assert refused.code == expected, f"{cell.name}: expected code {expected}, the client says: {refused}"


def _chromium() -> Agent:
    return Agent("chromium", (sys.executable, "-m", "tests.clients.agents.chromium_client"), {"PYTHONUNBUFFERED": "1"})
