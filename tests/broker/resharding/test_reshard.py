"""Brokers that start with another number of workers than before: nothing is lost, and the log says what happens."""

import itertools
import os
import shutil
import signal
from pathlib import Path

import pytest

from broker.cluster.slots import home_of
from broker.resharding.layout import FOLDER
from broker.resharding.progress import Progress
from broker.resharding.reshard import reshard
from broker.storage import records, spares
from broker.storage.directory import occupy
from broker.storage.errors import StorageError
from broker.storage.found import find
from broker.storage.segments import Segments
from protocol.acknowledgements import Pubcomp, Pubrec, Pubrel
from protocol.publish import Publish
from tests.support.broker.cells import at_home, events, processes, start_cells
from tests.support.broker.resharded import Delivery, Kept, read_journals, write_journal
from tests.support.broker.restarting import come_back, leave, payloads
from tests.support.brokers import OWN_PROGRAM, SLUICE, TCP_ONLY, sluice_config, start_sluice
from tests.support.process import BrokerProcess, clean_environment
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

COUNT = 30


@pytest.fixture(autouse=True)
def own_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """As brokers have them."""
    monkeypatch.setattr(spares, "SEGMENT", 16 * 1024 * 1024)


def start(folder: Path, workers: int) -> BrokerProcess:
    """A broker with so many workers on the journals in this folder."""
    sections = {"persistence": {"directory": str(folder / "journal")}}
    if workers > 1:
        return start_cells(folder, workers, sections)
    return start_sluice(folder, sections=sections | {"cluster": {"workers": 1}}, env=OWN_PROGRAM)


def names(cells: int) -> list[str]:
    """Client ids, two of each cell."""
    return [name for cell in range(1, cells + 1) for name in itertools.islice(at_home(cell, cells, f"c{cell}-"), 2)]


def test_fewer_workers_and_more(tmp_path: Path) -> None:
    """Each kept session gets what waited for it, once and in order: 3 workers, 2, 1, and 4."""
    with start(tmp_path, 3) as broker:
        for name in names(3):
            leave(broker, name, "t/#")
        with connected(broker.address(), 5) as publisher:
            for number in range(COUNT):
                publisher.publish(f"t/{number % 3}", b"%d" % number, 2, retain=number == 0)
    for before, workers in itertools.pairwise((3, 2, 1, 4)):
        with start(tmp_path, workers) as broker:
            (changed,) = events(broker, "workers_changed")
            assert (changed["before"], changed["workers"], changed["sessions"]) == (before, workers, 6)
            assert changed["messages"] == 6 * COUNT
            assert events(broker, "workers_changing")[0]["percent"] == 0
            with connected(broker.address(), 5) as client:
                client.subscribe("t/0")
                assert client.expect(Publish).payload == b"0"
            if workers == 4:
                for name in names(3):
                    with come_back(broker, name) as client:
                        assert payloads(client, COUNT) == [b"%d" % number for number in range(COUNT)]


def test_what_waited_for_a_cell_that_was_stalled(tmp_path: Path) -> None:
    """CL-3: what a publisher's cell had for another one is acknowledged, so it comes."""
    with start(tmp_path, 3) as broker:
        far, near = next(at_home(3, 3, "far")), next(at_home(1, 3, "near"))
        for name in (far, near):
            leave(broker, name, "t")
        with WireClient(broker.address(), 5) as publisher:
            publisher.connect(next(at_home(1, 3, "publisher")))
            cells = processes(broker)
            os.kill(cells[2], signal.SIGSTOP)
            for number in range(COUNT):
                publisher.publish("t", b"%d" % number, 2)
            for pid in (broker.pid, *cells):
                os.kill(pid, signal.SIGKILL)
    with start(tmp_path, 2) as broker:
        for name in (far, near):
            with come_back(broker, name) as client:
                assert payloads(client, COUNT) == [b"%d" % number for number in range(COUNT)]


def test_an_exchange_of_qos_2_goes_on(tmp_path: Path) -> None:
    """With the packet ids of both sides: what the client has had does not come again, nor what it has sent."""
    name = next(at_home(3, 3, "c"))
    with start(tmp_path, 3) as broker:
        leave(broker, name, "t")
        with connected(broker.address(), 5) as publisher:
            for payload in (b"1", b"2"):
                publisher.publish("t", payload, 2)
        with come_back(broker, name) as client:
            first, second = client.expect(Publish), client.expect(Publish)
            client.send(Pubrec(first.packet_id))
            client.expect(Pubrel)
            client.send(Publish(b"own", b"x", 2, packet_id=77))
            client.expect(Pubrec)
    with start(tmp_path, 2) as broker, connected(broker.address(), 5) as subscriber:
        subscriber.subscribe("own", qos=2)
        with come_back(broker, name) as client:
            again = [client.receive(), client.receive()]
            assert sorted((type(each).__name__, each.packet_id) for each in again if hasattr(each, "packet_id")) == [
                ("Publish", second.packet_id),
                ("Pubrel", first.packet_id),
            ]
            client.send(Publish(b"own", b"x", 2, dup=True, packet_id=77))
            client.expect(Pubrec)
            client.send(Pubrel(77))
            client.expect(Pubcomp)
        subscriber.expect_nothing_more()


def test_killed_while_it_moves(tmp_path: Path) -> None:
    """kill -9 of the broker that changes the number of workers: the next one has all that there was."""
    waiting = [Delivery(b"%d" % number, topic=b"t/%d" % number) for number in range(2_000)]
    sessions = [Kept(f"c{number}", waiting) for number in range(20)]
    write_journal(tmp_path / "journal", sessions)
    moved = shutil.copytree(tmp_path / "journal", tmp_path / "moved")
    reshard(moved, 3)
    sections = {"persistence": {"directory": str(tmp_path / "journal")}, "cluster": {"workers": 3}}
    (tmp_path / "sluice.yaml").write_text(sluice_config(TCP_ONLY, sections))
    for step in ("cell-1", "cell-3", "cell-3/segment-1"):
        broker = BrokerProcess([*SLUICE, "run", "--config", "sluice.yaml"], tmp_path, clean_environment(**OWN_PROGRAM))
        wait_until((tmp_path / "journal" / FOLDER / step).exists, "the change", 20)
        os.kill(broker.pid, signal.SIGKILL)
        broker.stop()
        assert (tmp_path / "journal" / FOLDER).exists()
    reshard(tmp_path / "journal", 3)
    assert read_journals(tmp_path / "journal") == read_journals(moved)


def test_journals_that_are_in_use(tmp_path: Path) -> None:
    """A broker that runs keeps its journals, and the other one says so; nothing is changed."""
    journal = write_journal(tmp_path / "journal", [Kept("c", [Delivery(b"x")])])
    reshard(journal, 2)
    locks = occupy(journal / "cell-2")
    try:
        with pytest.raises(StorageError, match="cell-2: another broker uses it"):
            reshard(journal, 3)
    finally:
        for file in locks:
            os.close(file)
    assert sorted(each.name for each in journal.iterdir()) == ["cell-1", "cell-2"]
    reshard(journal, 3)
    assert len(list(journal.iterdir())) == 3


def test_a_damaged_journal(tmp_path: Path) -> None:
    """It is named, with what to do about it, and nothing is changed."""
    journal = write_journal(tmp_path / "journal", [Kept("c", [Delivery(b"x" * 5_000)] * 20)])
    (segment,) = find(journal).segments
    with segment.path.open("r+b") as file:
        file.seek(9_000)
        file.write(b"damage")
    with pytest.raises(StorageError, match="the journal is damaged; `sluice store check`"):
        reshard(journal, 2)
    assert not (journal / FOLDER).exists()
    assert not (journal / "cell-1").exists()


def test_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked before anything is written; the error says how much is needed."""
    journal = write_journal(tmp_path / "journal", [Kept("c", [Delivery(b"x")])])
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=20 * 2**20))
    with pytest.raises(StorageError, match="4 workers need up to 65 MiB beside the old ones, and 20 are free"):
        reshard(journal, 4)
    assert not (journal / FOLDER).exists()
    reshard(journal, 1)


def test_journals_of_one_worker_and_of_several(tmp_path: Path) -> None:
    """Nobody knows which of them count."""
    write_journal(tmp_path, [])
    write_journal(tmp_path / "cell-1", [])
    write_journal(tmp_path, [Kept("c")])
    with pytest.raises(StorageError, match="has the journal of one worker and those of 1"):
        reshard(tmp_path, 2)


def test_a_journal_on_another_disk(tmp_path: Path) -> None:
    """A link is not replaced by a folder."""
    write_journal(tmp_path / "journal" / "cell-1", [])
    write_journal(tmp_path / "elsewhere", [])
    (tmp_path / "journal" / "cell-2").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="cell-2: it is a link, or on another disk"):
        reshard(tmp_path / "journal", 3)


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line each second says how far it has come, and never that it is done before it is."""
    now = [10.0]
    monkeypatch.setattr("broker.resharding.progress.monotonic", lambda: now[0])
    told: list[int] = []
    progress = Progress(1_000, told.append)
    for _ in range(20):
        now[0] += 0.25
        progress.add(50)
    assert told == [20, 40, 60, 80, 99]
    assert progress.seconds() == 5.0


def test_times_of_a_clock_that_was_set(tmp_path: Path) -> None:
    """What expires does so by the clock as it is now: CLOCK is not copied."""
    journal = tmp_path / "journal"
    write_journal(journal, [Kept("c", [Delivery(b"x", expires_at=5_000_000)], detached_at=2_000_000)])
    segments = Segments(journal)
    assert segments.append([[records.clock(1_000_000)]])
    segments.close()
    reshard(journal, 2)
    kept, _ = read_journals(journal)
    (session,) = kept[home_of("c", 2)]
    assert session.deliveries[0].expires_at == 6_000_000
    assert session.state[-1] == records.detached(0, 3_000_000, 0xFFFFFFFF, False)
