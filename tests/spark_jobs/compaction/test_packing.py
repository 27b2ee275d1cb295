"""Which files share a task."""

from spark_jobs.compaction.packing import packed
from spark_jobs.store.taken import FileRecord

MINUTE = 60_000_000


def file(name: str, first: int, last: int, *brokers: str, rows: int = 10) -> FileRecord:
    """A file with rows of these minutes."""
    return FileRecord(name, 99, 0, "read", rows=rows, first_us=first * MINUTE, last_us=last * MINUTE, brokers=brokers)


def test_files_that_may_have_the_same_rows_share_a_task() -> None:
    """They are together whatever their number of rows, sorted by name: the first file's row is the one that counts."""
    files = [file("z", 0, 9, "a"), file("c", 20, 29, "a"), file("b", 5, 20, "a"), file("other", 0, 99, "b")]
    assert packed(files, 1) == [[["b", "c", "z"]], [["other"]]]


def test_a_file_of_two_brokers_joins_the_files_of_both() -> None:
    """Files that have no row in common with each other have some in common with it."""
    files = [file("a", 0, 9, "a"), file("b", 0, 9, "b"), file("later", 10, 19, "a"), file("both", 0, 9, "a", "b")]
    assert packed(files, 1) == [[["a", "b", "both"]], [["later"]]]


def test_small_neighbours_of_a_broker_share_a_task() -> None:
    """Tasks go through the files by broker and time, so most rows of a session and hour are in one."""
    files = [file(f"{minute}-{broker}", minute, minute, broker) for minute in range(4) for broker in "ab"]
    assert [[name for [name] in task] for task in packed(files, 20)] == [
        ["0-a", "1-a"],
        ["2-a", "3-a"],
        ["0-b", "1-b"],
        ["2-b", "3-b"],
    ]


def test_a_file_without_rows_is_alone() -> None:
    """It has no broker and no times."""
    empty = FileRecord("empty", 99, 0, "read", rows=0)
    assert packed([empty, file("a", 0, 9, "a")]) == [[["empty"], ["a"]]]
    assert packed([]) == []
