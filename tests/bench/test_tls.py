"""The bench of TLS as a command, and the generator's TLS."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import run, tls
from tests.bench.generator import LoadError, build, drive
from tests.bench.loads import BY_NAME, Load
from tests.bench.peers import Candidate
from tests.bench.rounds import Cell, Comparison, Timing, compare
from tests.support.brokers import Listener, start_sluice
from tests.support.certificates import make_certificates

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _needs_openssl() -> None:
    try:
        build(tls=True)
    except LoadError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("size", [64, 40_000])
def test_everything_arrives_in_order(tmp_path: Path, size: int) -> None:
    """Over TLS too, nothing is lost or out of order, whether records have many messages or messages many records."""
    options = f"--mode pair --publishers 3 --size {size} --window 10 --seconds 0.2 --warmup 0.1 --tls 1"
    with start_sluice(tmp_path, (Listener("tcp", make_certificates(tmp_path)),)) as broker:
        result = drive(broker, options.split())
    assert result["received"][0] > 0
    assert [result[count] for count in ("lost", "out_of_order", "refused", "foreign")] == [0, 0, 0, 0]


@pytest.mark.slow
def test_row_over_tls() -> None:
    """A load over TLS is measured on a listener with TLS; brokers without one say so."""
    command = [sys.executable, str(Path(run.__file__)), "--quick", "--loads", "tls", "--brokers"]
    result = subprocess.run([*command, "sluice-interpreted"], capture_output=True, text=True, check=True)
    assert "10 pairs over TLS" in result.stdout
    assert "note:" not in result.stdout
    load, plain = BY_NAME["tls"], Candidate("plain", "Plain", lambda folder, unlimited: pytest.fail("started"))
    comparison = compare([load], [plain], Timing(1, 0.1, 0.1, 4), lambda title: None)
    assert comparison.cells["tls", "plain"].failure == "is not measured over TLS"


def test_generator_without_tls() -> None:
    """The generator that was built without OpenSSL says what is missing."""
    command = [str(build()), "--mode", "pair", "--tls", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "libssl-dev" in result.stderr


def test_ratios_and_limits() -> None:
    """A figure above its limit is highlighted; a broker that has failed has none."""
    names = ("sluice", "mosquitto")
    wanted = tls.figures(10)
    candidates = [Candidate(name, name, lambda folder, unlimited: pytest.fail("not started")) for name in names]
    loads: list[Load] = list(dict.fromkeys(figure.load for figure in wanted))
    comparison = Comparison(loads, candidates)
    for load in loads[:-1]:
        for name, value in zip(names, (1.5, 1.0), strict=True):
            cell = comparison.cells[load.name, name] = Cell()
            cell.results = [{figure.key: value for figure in wanted}]
    comparison.cells[loads[-1].name, "sluice"] = Cell(failure="refused")
    assert [tls.ratio(comparison, figure, "sluice") for figure in wanted] == [1.5, 1.5, 1.5, 1.5, None]
    grid = tls.table(comparison, wanted)
    assert grid.bad_rows == {2, 3}
    assert grid.rows[0][1:] == ["1.50 (1.50×)", "1.00", "1.80×"]
    data = tls.as_json(comparison, wanted, {}, Timing(1, 1.0, 0.5, 4))
    assert json.loads(json.dumps(data))["results"][-1]["failure"] == "refused"


def test_usage() -> None:
    """--help has the options."""
    command = [sys.executable, str(Path(tls.__file__)), "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    for option in ("--connections", "--rounds", "--json", "--before", "--check"):
        assert option in result.stdout
