"""Files that are cut off, damaged or foreign: one clear error with a place, and no memory for what they say."""

import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.mosquitto_db.chunks import FileError
from tests.broker.storage.mosquitto_db.test_contents import journal, read
from tests.support.broker.mosquitto_file import chunk, client, delivery, message, retained, start, subscription

RICH = b"\x0e\x03\x00\x04text&\x00\x01k\x00\x01v"
WHOLE = (
    start()
    + message(1, b"a/b", b"payload", 2, retain=1, properties=RICH)
    + message(2, b"a/c", b"", expires_at=1_900_000_000)
    + client(b"one", b"ann", 1000, 1_800_000_900)
    + delivery(1, b"one", 7, 2, 9)
    + delivery(2, b"one", 8, 1, 11, flags=0x10)
    + delivery(1, b"one", 9, 2, 7, direction=0)
    + client(b"two")
    + delivery(2, b"two", 0, 0)
    + subscription(b"one", b"a/#", 2, 12, 5)
    + subscription(b"two", b"$share/g/a/+")
    + retained(1)
)
WRONG = {
    b"": "the file is empty",
    b"SQLite format 3\0": "byte 0: this is not a persistence file of Mosquitto",
    start()[:20]: "byte 0: the file's head needs 23 bytes, but 20 are left",
    start()[:23]: "byte 23: the file ends behind its head",
    start(4): "byte 19: version 4; those that can be read are 5 and 6",
    start(7): "byte 19: version 7",
    start(id_size=4): "ids of messages have 4 bytes instead of 8",
    start()[:-9]: "byte 23: a chunk says 16 bytes, but 7 are left",
    start()[:23] + chunk(1, b"short"): "byte 23: the first chunk has 5 bytes instead of 16 or 12",
    start()[:23] + client(b"c"): "byte 23: a chunk of kind 6; kind 1 comes first",
    start() + start()[23:]: "byte 47: a chunk of kind 1; kind 1 comes first, and once",
    start() + chunk(9, b""): "byte 47: a chunk of the unknown kind 9",
    start() + b"\0\0\0": "byte 47: a chunk's head needs 8 bytes, but 3 are left",
    start() + message(1, b"t", b"x") * 2: "message 1 for the second time",
    start() + message(1, b"a/#", b"x"): "byte 47: PUBLISH topic name: 'a/#' has a wildcard",
    start() + message(1, b"\xff", b"x"): "not well-formed UTF-8",
    start() + message(1, b"t", b"x", properties=b"\x02\xee\x00"): "is no property of this packet",
    start() + message(1, b"t", b"x", properties=b"\x00more"): "byte 47: a message that is shorter than its chunk",
    start() + message(1, b"t", b"x", expires_at=-1): "byte 63: the time -1 is impossible",
    start() + message(1, b"t", b"x", 3): "QoS 3",
    start() + client(b""): "a client without an id",
    start() + client(b"c") * 2: "a client without an id, or for the second time",
    start() + client(b"c", expires_at=1 << 60): "of a big-endian machine",
    start() + client(b"c", b"\xff"): "user name: not well-formed UTF-8",
    start() + delivery(1, b"c"): "byte 47: it belongs to a client that is not in the file",
    start() + client(b"c") + subscription(b"c", b"a#"): "must be a level of its own",
    start() + client(b"c") + subscription(b"c", b"a", 3): "a subscription of QoS 3",
    start() + client(b"c") + delivery(1, b"c", state=12): "state 12",
    start() + chunk(4, b"short"): "byte 47: a retained message of 5 bytes instead of 8",
}


@pytest.mark.parametrize("content", WRONG, ids=list(WRONG.values()))
def test_wrong_files(content: bytes) -> None:
    """What is wrong is named with the byte where it is."""
    with pytest.raises(FileError, match=re.escape(WRONG[content])) as raised:
        read(content)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("kind", range(1, 7))
def test_hostile_lengths(kind: int) -> None:
    """Lengths that the file does not have are refused before anything is copied."""
    fixed = bytes(16) + b"\xff" * 14 + b"\0\0"
    tracemalloc.start()
    for content in (chunk(kind, fixed), b"\0\0\0" + bytes([kind]) + b"\xff\xff\xff\xff" + fixed):
        with pytest.raises(FileError):
            read(start() + content)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000


@given(st.integers(0, len(WHOLE) - 1))
def test_cut_off(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    """A file that is cut off is an error with its place, unless it ends between two chunks."""
    _read_or_refused(WHOLE[:length], tmp_path_factory)


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(1, 255)), min_size=1, max_size=4))
def test_flipped(tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]) -> None:
    """Flipped bits are an error with its place, or another sound content: never anything else."""
    content = bytearray(WHOLE)
    for position, bits in flips:
        content[position] ^= bits
    _read_or_refused(bytes(content), tmp_path_factory)


def test_the_whole_file(tmp_path: Path) -> None:
    """The file that is cut and flipped above is sound."""
    saved = journal(read(WHOLE), tmp_path)
    assert [session.client_id or session.group for session in saved.sessions.values()] == ["one", "two", "$share/g/a/+"]


def _read_or_refused(content: bytes, folders: pytest.TempPathFactory) -> None:
    state, error = None, ""
    try:
        state = read(content)
    except FileError as refused:
        error = str(refused)
    if state is None:
        assert error.startswith("byte ") or not content
        assert error.isprintable()
    else:
        journal(state, folders.mktemp("journal"))
