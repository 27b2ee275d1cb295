"""Loads between workers: clients are at the cell that the load names, and every row is measured."""

import sys
from pathlib import Path

import pytest
import typer

from tests.bench.candidates import Sources, names
from tests.bench.cells import across, main
from tests.bench.generator import drive
from tests.bench.invoked import invoked
from tests.bench.run import chosen_loads
from tests.bench.told_peers import flashmq_config
from tests.support.broker.cells import events
from tests.support.brokers import start_sluice

pytestmark = pytest.mark.once


@pytest.mark.usefixtures("generator")
def test_clients_are_at_the_cells_of_the_load(tmp_path: Path) -> None:
    """The publishers of a crossing pair are at cell 1, the subscribers at cell 2, and all that is sent arrives."""
    with start_sluice(tmp_path, workers=2) as broker:
        options = ["--mode", "pair", "--publishers", "5", "--window", "10", "--seconds", "0.2", "--warmup", "0.1"]
        result = drive(broker, [*options, *across(2)])
        assert result["received"][0] > 0
        assert result["lost"] == 0
        clients = {each["client_id"]: each["cell"] for each in events(broker, "connected")}
        kinds = {(client_id.split("-")[2][0], cell) for client_id, cell in clients.items() if "blast" in client_id}
        assert kinds == {("p", 1), ("s", 2)}


def test_workers_are_asked_for() -> None:
    """Their rows and their column are there with `--workers` only, and peers with threads get as many."""
    assert {load.name for load in chosen_loads("crossing*", 2)} >= {"crossing-q0", "crossing-q1", "crossing-v3"}
    with pytest.raises(typer.BadParameter, match="there is no load crossing"):
        chosen_loads("crossing*")
    assert "sluice-workers" in names(Sources(workers=2))
    assert "sluice-workers" not in names(Sources())
    assert "thread_count 2\n" in flashmq_config(Path(), 1883, False, 2)
    assert "thread_count" not in flashmq_config(Path(), 1883, False)


@pytest.mark.slow
@pytest.mark.usefixtures("generator")
def test_every_row() -> None:
    """A short run prints all rows, and what a filter of another worker takes."""
    short = ("--rounds", "2", "--seconds", "0.2", "--clients", "200", "--topics", "5000")
    result = invoked(main, "--sluice", sys.executable, *short)
    assert result.exit_code == 0, result.stderr
    for row in ("10 kept pairs across", "one message at a time", "200 clients connect", "5,000 filters", "bytes"):
        assert row in result.stdout
