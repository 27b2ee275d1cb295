"""FC-35: a short run of the ledger, and what it notices; `make ledger` accounts for 10 million deliveries."""

from collections.abc import Callable

import pytest

from tests.ledger.__main__ import play
from tests.ledger.books import CONFLATED, IN_DOUBT, REFUSED, TAKEN, Books, Page
from tests.support.brokers import SLUICE

SEED = 128
DELIVERIES = 3_000
TOPIC = CONFLATED + b"topic"


@pytest.mark.once
@pytest.mark.parametrize("number", range(2))
def test_every_delivery_is_accounted_for(number: int) -> None:
    """Each delivery is acknowledged, told as dropped, refused, or superseded, whatever goes wrong."""
    outcome, words = play(SEED, number, DELIVERIES, SLUICE)
    assert outcome.wrong == [], words
    assert outcome.ends.total() == outcome.deliveries >= DELIVERIES


def _books(*, sums: bool = False, conflates: bool = True) -> tuple[Books, Page]:
    """Books of one receiver, to whom message 0 is owed, and a message 1 on the same topic; both are published."""
    page = Page("receiver", subscribed=True)
    books = Books([page], {"member": "receiver"}, sums=sums, conflates=conflates)
    for _ in range(2):
        books.answered(books.add(TOPIC), TAKEN)
    return books, page


def _came(books: Books, page: Page, number: int = 0, qos: int = 2, dup: bool = False) -> None:
    books.came(page, number, qos, dup)


def _told(books: Books, _: Page, number: int = 0) -> None:
    books.told("member", number, "expired")


Step = Callable[[Books, Page], None]
RIGHT: dict[str, tuple[Step, ...]] = {
    "acknowledged": (lambda b, p: _came(b, p, 0), lambda b, p: _came(b, p, 1)),
    "told": (lambda b, p: _told(b, p, 0), lambda b, p: _came(b, p, 1)),
    "superseded": (lambda b, p: _came(b, p, 1),),
    "superseded by one that is told": (lambda b, p: _told(b, p, 1),),
    "refused": (lambda b, p: b.answered(1, REFUSED), _came),
    "no answer": (lambda b, p: b.answered(1, IN_DOUBT), _came),
    "no answer, and it came": (lambda b, p: b.answered(0, IN_DOUBT), _came, lambda b, p: _came(b, p, 1)),
    "QoS 1 again": (lambda b, p: _came(b, p, 1, 1), lambda b, p: _came(b, p, 1, 1, True)),
    "QoS 1 after a kill": (lambda b, p: _came(b, p, 1, 1), lambda b, p: b.crashed(), lambda b, p: _came(b, p, 1, 1)),
    "told after a kill": (lambda b, p: _came(b, p, 1), lambda b, p: b.crashed(), lambda b, p: _told(b, p, 1)),
    "told twice over a kill": (lambda b, p: _told(b, p, 1), lambda b, p: b.crashed(), lambda b, p: _told(b, p, 1)),
}
WRONG: dict[str, tuple[Step, ...]] = {
    "unaccounted": (_came,),
    "neither": (lambda b, p: None,),
    "QoS 2 twice": (lambda b, p: _came(b, p, 1), lambda b, p: _came(b, p, 1, 2, True)),
    "QoS 2 twice over a kill": (lambda b, p: _came(b, p, 1), lambda b, p: b.crashed(), lambda b, p: _came(b, p, 1)),
    "QoS 1 twice without DUP": (lambda b, p: _came(b, p, 1, 1), lambda b, p: _came(b, p, 1, 1)),
    "told twice": (lambda b, p: _told(b, p, 1), lambda b, p: _told(b, p, 1)),
    "acknowledged and told": (lambda b, p: _came(b, p, 1), lambda b, p: _told(b, p, 1)),
    "told and acknowledged": (lambda b, p: _told(b, p, 1), lambda b, p: _came(b, p, 1)),
    "refused, and it came": (lambda b, p: b.answered(1, REFUSED), lambda b, p: _came(b, p, 1), _came),
    "refused, and told": (lambda b, p: b.answered(1, REFUSED), lambda b, p: _told(b, p, 1), _came),
    "a sum without a rate": (_came, lambda b, p: b.summed("member", "expired", 1)),
}


@pytest.mark.parametrize("steps", RIGHT.values(), ids=RIGHT)
def test_what_is_accounted_for(steps: tuple[Step, ...]) -> None:
    """Both deliveries have ended as they may."""
    books, page = _books()
    for step in steps:
        step(books, page)
    ends, wrong = books.close()
    assert wrong == []
    assert ends.total() == books.deliveries == books.messages == 2


@pytest.mark.parametrize("steps", WRONG.values(), ids=WRONG)
def test_what_is_noticed(steps: tuple[Step, ...]) -> None:
    """Each way in which a broker may lose, double or mix up deliveries is noticed."""
    books, page = _books()
    for step in steps:
        step(books, page)
    assert books.close()[1]


@pytest.mark.parametrize("owed", [True, False])
def test_who_is_owed_nothing_gets_nothing(owed: bool) -> None:
    """What comes to a client that is not to get it, or is told about one, is wrong."""
    for step in (_came, _told):
        books, page = _books()
        page.denied = frozenset() if owed else frozenset([TOPIC])
        number = books.add(TOPIC)
        step(books, page, number)
        assert bool(books.faults) is not owed


@pytest.mark.parametrize(("count", "right"), [(0, False), (1, True), (2, False)])
def test_sums_have_to_be_exact(count: int, right: bool) -> None:
    """As many deliveries are missing as drop events say in sums."""
    books, page = _books(sums=True, conflates=False)
    _came(books, page, 1)
    books.summed("member", "expired", count)
    assert (books.close()[1] == []) is right
