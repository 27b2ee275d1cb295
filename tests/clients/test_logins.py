"""Every client logs in by every method, over every transport, and behind real proxies: a cover of `make logins`."""

import os
from collections.abc import Iterator

import pytest

from tests.clients.logins.place import Place, missing, place
from tests.clients.logins.running import Agents, run
from tests.clients.logins.table import Cell, all_cells, cover

pytestmark = pytest.mark.timeout(300)

BROWSER = "chromium"
COMPILED_TOO = "direct"
"""What is behind a proxy gets the same packets, compiled or not."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """What all cells share."""
    with place(tmp_path_factory.mktemp("logins")) as made:
        yield made


@pytest.fixture(scope="module")
def agents() -> Iterator[Agents]:
    """The running clients."""
    with Agents() as made:
        yield made




def marks(cell: Cell) -> list[pytest.MarkDecorator]:
    """A browser takes five times the processor of other clients: one cell of it is enough for each run."""
    once = [] if cell.way == COMPILED_TOO and cell.client != BROWSER else [pytest.mark.once]
    return [*once, pytest.mark.slow] if cell.client == BROWSER and cell is not FIRST_OF_BROWSER else once


COVER = cover()
FIRST_OF_BROWSER = next(cell for cell in COVER if cell.client == BROWSER and cell.way != COMPILED_TOO)
CELLS = [pytest.param(cell, id=cell.name, marks=marks(cell)) for cell in COVER]


@pytest.mark.parametrize("cell", CELLS)
def test_login(shared: Place, agents: Agents, cell: Cell) -> None:
    """A client logs in, subscribes and publishes, by rules about its own address; with a wrong secret it is refused."""
    absent = missing(cell)
    if absent and not os.environ.get("CI"):
        pytest.skip(absent)
    assert not absent
    run(cell, shared, agents)


@pytest.mark.once
def test_cover() -> None:
    """Whatever two things meet in the table do so in its cover, which is a small part of it."""
    for one, other in (("client", "transport"), ("client", "method"), ("transport", "method"), ("way", "method")):
        meetings = {(getattr(cell, one), getattr(cell, other)) for cell in all_cells()}
        assert meetings == {(getattr(cell, one), getattr(cell, other)) for cell in cover()}
    assert len(cover()) < len(all_cells()) / 10
