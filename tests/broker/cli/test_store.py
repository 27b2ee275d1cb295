"""`sluice store`: what it prints about sound and damaged journals, and the copies that it makes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from broker.cli.main import app
from broker.storage.found import find
from broker.storage.frame import HEAD_SIZE, SECTOR
from protocol import properties as props
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from tests.broker.conftest import Start
from tests.support.broker.segmented import make, overwrite
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 3600}


def store(command: str, *arguments: Path) -> tuple[int, str]:
    """Run `sluice store ...`: status, and all that it has printed."""
    result = CliRunner().invoke(app, ("store", command, *map(str, arguments)))
    return result.exit_code, result.output


@pytest.fixture
def journal(start: Start, tmp_path: Path) -> Path:
    """The journal of a broker that runs: a session with three deliveries, and a retained message."""
    directory = tmp_path / "journal"
    broker = start(sections={"persistence": {"directory": str(directory)}})
    with WireClient(broker.address(), 5) as client:
        client.connect("kept", clean_start=False, properties=KEPT)
        client.subscribe("t", "$share/g/u", qos=1)
    with connected(broker.address(), 5) as publisher:
        for number in range(3):
            publisher.publish("t", bytes(1000), 1, retain=number == 2)
    return directory


def damage(journal: Path, number: int) -> None:
    """Change a byte of one frame."""
    overwrite(journal / "segment-1", place_of(journal, number) + HEAD_SIZE + 3, b"damage")


def place_of(journal: Path, number: int) -> int:
    """Where a frame is in the one segment of a journal."""
    (segment,) = find(journal).segments
    return next(position for position, head in segment.heads_from(SECTOR) if head.number == number)


def test_deliveries_of_lost_sessions(journal: Path, tmp_path: Path) -> None:
    """`salvage` says how many deliveries it has copied that no session will get."""
    damage(journal, 1)
    status, said = store("salvage", journal, tmp_path / "copy")
    assert status == 1
    assert "deliveries in them are lost too: the sessions that they are for were in what is lost" in said
    assert "deliveries  0" in store("stats", tmp_path / "copy")[1]


def test_of_a_running_broker(journal: Path, tmp_path: Path, start: Start) -> None:
    """`store` prints figures and makes a copy while the broker runs; a broker starts from the copy."""
    status, said = store("stats", journal)
    assert status == 0
    assert [line.split()[:2] for line in said.splitlines()[:5]] == [
        ["sessions", "1"],
        ["groups", "1"],
        ["deliveries", "3"],
        ["pages", "0"],
        ["retained", "1"],
    ]
    size, live = (int(word.rstrip(":")) for word in said.splitlines()[6].split()[1:3])
    assert 3_000 < live < size
    status, said = store("check", journal)
    assert (status, said.split(",")[1]) == (0, " no damage found\n")
    assert store("backup", journal, tmp_path / "copy")[0] == 0
    broker = start(sections={"persistence": {"directory": str(tmp_path / "copy")}})
    with WireClient(broker.address(), 5) as client:
        assert client.connect("kept", clean_start=False, properties=KEPT).session_present
        assert [client.expect(Publish).size for _ in range(3)] == [1000] * 3


def test_damaged(journal: Path, tmp_path: Path, start: Start) -> None:
    """`store` lists all damage and copies the rest, and a broker starts from the copy."""
    assert store("backup", journal, tmp_path / "copy")[0] == 0
    last = find(tmp_path / "copy").next - 1
    damage(tmp_path / "copy", last)
    status, said = store("check", tmp_path / "copy")
    assert status == 1
    assert f"frame {last}: the checksum is wrong" in said
    assert store("stats", tmp_path / "copy")[0] == 1
    status, said = store("salvage", tmp_path / "copy", tmp_path / "rest")
    assert status == 1
    assert f"frame {last}: the checksum is wrong: lost" in said
    assert "1 are lost" in said
    broker = start(sections={"persistence": {"directory": str(tmp_path / "rest")}})
    with WireClient(broker.address(), 5) as client:
        assert client.connect("kept", clean_start=False, properties=KEPT).session_present


def test_nothing_there(tmp_path: Path) -> None:
    """A directory without a journal, and a copy onto an existing file, are refused with the path."""
    for command in ("stats", "check"):
        status, said = store(command, tmp_path)
        assert status == 1
        assert f"sluice: {tmp_path}: there is no journal" in said
    status, said = store("salvage", make(tmp_path / "journal", 1), tmp_path)
    assert status == 1
    assert "the copy needs a directory that does not exist" in said


def test_missing(journal: Path, tmp_path: Path) -> None:
    """A frame that is missing between others is listed and counted as lost, and the copy has no gap."""
    assert store("backup", journal, tmp_path / "copy")[0] == 0
    count = find(tmp_path / "copy").next - 1
    overwrite(tmp_path / "copy" / "segment-1", place_of(tmp_path / "copy", 2), bytes(SECTOR))
    status, said = store("check", tmp_path / "copy")
    assert status == 1
    assert "frame 2: missing or damaged\n" in said
    status, said = store("salvage", tmp_path / "copy", tmp_path / "rest")
    assert status == 1
    assert "frame 2: missing or damaged: lost\n" in said
    assert f"{count - 1} frames are in {tmp_path / 'rest'}, at least 1 are lost\n" in said
    assert store("check", tmp_path / "rest") == (0, f"{count - 1} frames, no damage found\n")


def test_state_is_live(start: Start, tmp_path: Path) -> None:
    """The subscriptions of a kept session are live, until they end."""
    broker = start(sections={"persistence": {"directory": str(tmp_path)}})
    filters = [f"{number}/{'x' * 5000}" for number in range(20)]
    with WireClient(broker.address(), 5) as client:
        client.connect("kept", clean_start=False, properties=KEPT)
        client.subscribe(*filters, qos=1)
        size, live, dead = figures(tmp_path)
        assert (size > 100_000, live > 100_000, dead < 1000) == (True, True, True)
        client.send(Unsubscribe(9, filters))
        client.expect(Unsuback)
        size, live, dead = figures(tmp_path)
        assert (live < 1000, dead > 200_000) == (True, True)


def figures(directory: Path) -> list[int]:
    """All bytes, the live and the dead ones."""
    return [
        int(word.rstrip(":")) for word in store("stats", directory)[1].splitlines()[6].split()[1:] if word[0].isdigit()
    ]
