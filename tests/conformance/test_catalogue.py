"""The catalogue is complete, and the tests that it names exist."""

from collections import Counter

from tests.conformance.catalogue import Statement, defined_tests, load
from tests.conformance.numbering import all_ids

STATEMENTS = load()


def named(statement: Statement) -> str:
    """Return id and version: both versions have statements with the same id."""
    return f"{statement.id} ({statement.version})"


def test_each_once() -> None:
    """No statement is listed twice."""
    counts = Counter(map(named, STATEMENTS))
    assert [name for name, count in counts.items() if count > 1] == []


def test_all_there() -> None:
    """Every number of every section is listed, and no number that the standard does not have."""
    listed = {(statement.version, statement.id) for statement in STATEMENTS}
    assert sorted(all_ids() - listed) == []
    assert sorted(listed - all_ids()) == []


def test_shown_or_explained() -> None:
    """Each statement names tests, says why there can be none, or binds only clients: exactly one of the three."""
    ways = {named(one): [bool(one.tests), bool(one.not_observable), one.client_only].count(True) for one in STATEMENTS}
    assert [name for name, count in ways.items() if count != 1] == []


def test_named_tests_exist() -> None:
    """Every test that the catalogue names exists."""
    defined = defined_tests()
    assert [(named(one), test) for one in STATEMENTS for test in one.tests if test not in defined] == []
