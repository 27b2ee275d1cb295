"""Reading YAML: values, their lines, and files that are not YAML."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import yaml_file

pytestmark = pytest.mark.once


def read(path: Path, text: str | bytes) -> tuple[dict[str, object], list[str], bool]:
    """Write and read a file; returns its values, its problems as text, and whether it was parsed."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    layer, problems, whole = yaml_file.read(path)
    return layer.values, [f"{problem.line}: {problem.path}: {problem.message}" for problem in problems], whole


def fatal(path: Path) -> str:
    """Read a file that cannot be parsed; returns its only problem, without the file's name."""
    layer, (problem,), whole = yaml_file.read(path)
    assert not whole
    assert layer.values == {}
    assert problem.source == str(path)
    return str(problem).removeprefix(str(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the test's file."""
    return tmp_path / "sluice.yaml"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("off", "off"),
        ("5", 5),
        ("-5", -5),
        ("010", 10),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("0x10", "0x10"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".inf", ".inf"),
        ("2024-01-01", "2024-01-01"),
        ("30s", "30s"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("9" * 5000, "9" * 5000),
        ("[1, a, [true]]", [1, "a", [True]]),
        ("{b: {c: 1}}", {"b": {"c": 1}}),
    ],
)
def test_plain_values(path: Path, text: str, value: object) -> None:
    """Plain scalars are read as in YAML 1.2: times, octals and yes are not special; quotes make text."""
    assert read(path, f"a: {text}\n") == ({"a": value}, [], True)


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "---\n...\n", "null\n", "\ufeff", "{}"])
def test_empty_files(path: Path, text: str) -> None:
    """A file without keys is valid and changes nothing."""
    assert read(path, text) == ({}, [], True)


def test_lines(path: Path) -> None:
    """Every key and list item has its line."""
    path.write_text("# c\na: 1\nb:\n  c: 2\n  d:\n    - x\n    - e: 3\n      f: 4\n")
    layer, problems, _ = yaml_file.read(path)
    assert problems == []
    assert {place: origin.line for place, origin in layer.origins.items()} == {
        ("a",): 2,
        ("b",): 3,
        ("b", "c"): 4,
        ("b", "d"): 5,
        ("b", "d", 0): 6,
        ("b", "d", 1): 7,
        ("b", "d", 1, "e"): 7,
        ("b", "d", 1, "f"): 8,
    }
    assert {origin.source for origin in layer.origins.values()} == {str(path)}


def test_keys_given_twice(path: Path) -> None:
    """A duplicate key is a mistake that names both lines; all are found."""
    values, problems, whole = read(path, "a: 1\nb: {c: 1, c: 2}\na: 3\nl:\n- {d: 1,\n   d: 2}\n")
    assert whole
    assert values == {"a": 1, "b": {"c": 1}, "l": [{"d": 1}]}
    assert problems == [
        "2: b.c: is given twice, in lines 2 and 2: keep one",
        "3: a: is given twice, in lines 1 and 3: keep one",
        "6: l[0].d: is given twice, in lines 5 and 6: keep one",
    ]


def test_tags_and_odd_keys(path: Path) -> None:
    """Tags are refused, never followed; so are keys that are not names."""
    _, problems, _ = read(path, "a: !!python/object/apply:os.system ['x']\nb: !mine 5\n? [1]\n: 2\n")
    assert problems == [
        "1: a: found the tag tag:yaml.org,2002:python/object/apply:os.system: write the plain value",
        "2: b: found the tag !mine: write the plain value",
        "3: : found a key that is not a name: write `name: value`",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2\n", ":2: is not YAML: while parsing a flow sequence"),
        ("a: 1\n\tb: 2\n", "YAML indents with spaces"),
        ("a: 1\n b: 2\n", ":2: is not YAML: "),
        ("a: 'x\n", "is not YAML: while scanning a quoted scalar"),
        ("a: &x 1\nb: *x\n", ":2: is not YAML: found an alias: write the value out"),
        ("a: &x [*x]\n", "found an alias"),
        ("a: 1\n---\nb: 2\n", "is not YAML: expected a single document"),
        ("- a\n- b\n", ":1: found no keys"),
        ("just text\n", ":1: found no keys"),
        ("%\n", "is not YAML"),
        (b"a: \xff\xfe\n", ":1: is not text in UTF-8 (byte 0xff)"),
        (b"a: 1\nb: \x00\n", ":2: is not text: it holds the character #x00"),
        (b"\x7fELF\x02\x01\x01" + bytes(100), "is not text"),
        (b"\xff\xd8\xff\xe0JFIF", ":1: is not text in UTF-8"),
        ("[" * 5000, "is nested too deeply"),
        (b"#" * (yaml_file.MAX_BYTES + 1), "is larger than"),
    ],
    ids=range(16),
)
def test_not_yaml(path: Path, text: str | bytes, message: str) -> None:
    """A file that is not YAML or not text is refused with the reason and the line."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert message in fatal(path)


def test_no_file(path: Path) -> None:
    """A missing file is reported."""
    assert fatal(path) == ": there is no such file"


def test_directory(tmp_path: Path) -> None:
    """A directory in place of the file is reported as one."""
    assert fatal(tmp_path) == ": this is a directory: name the file in it"


def test_impossible_name() -> None:
    """An impossible file name is refused like any other."""
    assert "cannot be" in fatal(Path("a\0b"))
    assert "cannot be read" in fatal(Path("x" * 5000))


def test_a_loop_of_links(path: Path) -> None:
    """A file that the system cannot open is refused with the system's reason."""
    path.symlink_to(path)
    assert "cannot be read: Too many levels of symbolic links" in fatal(path)


def test_a_pipe_is_a_file(path: Path) -> None:
    """A configuration may come from a pipe, as the shell's <(...) gives it."""
    reader, writer = os.pipe()
    os.write(writer, b"a: 1\n")
    os.close(writer)
    layer, problems, whole = yaml_file.read(Path(f"/dev/fd/{reader}"))
    os.close(reader)
    assert (layer.values, problems, whole) == ({"a": 1}, [], True)


@given(st.text(alphabet="ab:-[]{}'\"&*!|>%#?,\n\t 01\0é", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Every text gives values or a problem with a line or a reason."""
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    try:
        layer, problems, whole = yaml_file.read(Path(f"/dev/fd/{reader}"))
    finally:
        os.close(reader)
    assert whole or problems
    assert whole or not layer.values
