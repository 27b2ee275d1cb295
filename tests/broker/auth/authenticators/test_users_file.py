"""Password files: what is read of them, and that a change leaves everything else as it is."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker.auth.authenticators.users_file import User, change, parse, read
from tests.support.broker.logins import fast_hash, write_users

HASH = fast_hash("x")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the test's file, which is in a folder of its own."""
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "users"


def test_lines() -> None:
    """Comments and empty lines are skipped, blanks around names and hashes do not count, the third field is roles."""
    text = f"# comment: none\n\n  ann : {HASH} \nben:{HASH}:ops,night-shift\r\n#x:y\n漢 字:{HASH}"
    users, mistakes = parse(text)
    assert mistakes == []
    assert users == {
        "ann": User("ann", HASH),
        "ben": User("ben", HASH, ("ops", "night-shift")),
        "漢 字": User("漢 字", HASH),
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hunter2", "no colon"),
        (f":{HASH}", "user name ''"),
        ("ann:", "not a hash"),
        ("ann:hunter2", "not a hash"),
        (f"a\x07n:{HASH}", r"user name 'a\\x07n'"),
        (f"ann:{HASH}:a b", "role 'a b'"),
        (f"ann:{HASH}:a,", "role ''"),
        (f"{'n' * 65_536}:{HASH}", "65536 bytes"),
    ],
)
def test_mistakes(line: str, message: str) -> None:
    """A line that cannot be used is reported with its number and without what may be secret; others count."""
    users, mistakes = parse(f"ben:{HASH}\n{line}\nzoe:{HASH}\n")
    assert list(users) == ["ben", "zoe"]
    (mistake,) = mistakes
    assert mistake.line == 2
    assert message.replace("\\\\", "\\") in str(mistake)
    assert "hunter2" not in str(mistake)
    assert len(str(mistake)) < 300


def test_twice() -> None:
    """Of two lines of one user the later counts, as in Mosquitto."""
    other = fast_hash("y")
    users, mistakes = parse(f"ann:{HASH}\nann:{other}\n")
    assert users["ann"].hash == other
    assert [str(mistake) for mistake in mistakes] == ["line 2: user 'ann' has an earlier line, which does not count"]


def test_not_utf8(path: Path) -> None:
    """Bytes that are not UTF-8 are in no user name; a change of another user keeps them."""
    odd = b"\xff\xfe:" + HASH.encode() + b"\n"
    path.write_bytes(odd + f"ann:{HASH}\n".encode())
    assert list(read(path).users) == ["ann"]
    change(path, "ann", lambda _: None)
    assert path.read_bytes() == odd


def test_other_lines_stay(path: Path) -> None:
    """A change keeps comments, order, line ends and lines with mistakes."""
    path.write_bytes(f"# head\r\nann:{HASH}\nnonsense\n\x0b\nben:{HASH}".encode())
    change(path, "zoe", lambda _: User("zoe", HASH, ("ops",)))
    change(path, "ann", lambda user: None)
    assert path.read_bytes() == f"# head\r\nnonsense\n\x0b\nben:{HASH}\nzoe:{HASH}:ops\n".encode()


def test_all_lines_of_a_user(path: Path) -> None:
    """A change of a user who has several lines leaves one, and a removal none."""
    path.write_text(f"ann:{HASH}\nben:{HASH}\nann:broken\n")
    seen = []

    def edit(user: User | None) -> User:
        seen.append(user)
        return User("ann", HASH)

    change(path, "ann", edit)
    assert seen == [User("ann", "")]
    assert path.read_text() == f"ben:{HASH}\nann:{HASH}\n"
    change(path, "ann", lambda _: None)
    assert path.read_text() == f"ben:{HASH}\n"


def test_failure_leaves_the_file(path: Path) -> None:
    """If the change fails, the file is as before, and nothing else is left in its folder."""
    write_users(path)
    before = path.read_bytes()

    def fail(_: User | None) -> User:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        change(path, "ann", fail)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_reader_never_sees_a_part(path: Path) -> None:
    """The file is replaced as a whole: who has opened it before reads what it was."""
    write_users(path)
    before = path.read_bytes()
    with path.open("rb") as reader:
        change(path, "ann", lambda _: None)
        assert reader.read() == before
    assert path.read_bytes() != before


def test_permissions(path: Path) -> None:
    """A new file can be read by its owner only; the permissions of an old one stay."""
    change(path, "ann", lambda _: User("ann", HASH), create=True)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    change(path, "ben", lambda _: User("ben", HASH))
    assert path.stat().st_mode & 0o777 == 0o640


def test_symbolic_link(path: Path, tmp_path: Path) -> None:
    """What a link points to is changed, the link stays."""
    link = tmp_path / "link"
    link.symlink_to(write_users(path))
    change(link, "ann", lambda _: None)
    assert link.is_symlink()
    assert list(read(path).users) == ["ben"]


def test_no_file(path: Path) -> None:
    """Only adding a user creates a file."""
    with pytest.raises(FileNotFoundError):
        change(path, "ann", lambda _: None)
    assert list(path.parent.iterdir()) == []


def test_changes_at_once(path: Path) -> None:
    """Changes that meet wait for each other, as they do in several processes: none is lost."""
    write_users(path, {})

    def add(number: int) -> None:
        user = User(f"user{number}", HASH)
        change(path, user.name, lambda _: user)

    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(add, range(40)))) == 40
    assert len(read(path).users) == 40


def test_repr_has_no_hash() -> None:
    """A user in a traceback or log does not show the hash."""
    assert repr(User("ann", HASH)) == "User('ann')"
