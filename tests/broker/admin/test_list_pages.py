"""The walk that finds the top rows of a list: their order, how often it runs, and how long it holds the loop."""

import asyncio
import json
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from broker.admin import list_pages
from broker.admin.list_pages import FRESH, ListPage, ListPages
from broker.admin.listing import ListQuery
from broker.admin.sessions import SessionListing
from broker.clients import Client
from broker.runtime.clock import monotonic_us
from broker.telemetry import slices
from protocol.publish import Publish
from tests.support.broker.exporting import until
from tests.support.broker.local import LocalBroker
from tests.support.session.messages import message

pytestmark = pytest.mark.once

T = TypeVar("T")


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = monotonic_us()
        self.step = 0
        """Microseconds that pass at each look."""
        monkeypatch.setattr(list_pages, "monotonic_us", self.read)
        monkeypatch.setattr(slices, "monotonic_us", self.read)

    def read(self) -> int:
        """The time, which then goes on."""
        self.now += self.step
        return self.now


class Listed(SessionListing):
    """The sessions of a broker without sockets; counts walks."""

    def __init__(self, local: LocalBroker) -> None:
        super().__init__(local.broker.clients)
        self.walks = 0

    def items(self) -> Iterator[Client]:
        """All clients."""
        self.walks += 1
        return super().items()


class Bench:
    """A broker, and the top of its sessions."""

    def __init__(self, local: LocalBroker) -> None:
        self.local = local
        self.listed = Listed(local)
        self.list = ListPages(self.listed)

    def client(self, name: str, waiting: int = 0, in_mailbox: int = 0, size: int = 0) -> Client:
        """A client that is away, with so many deliveries waiting."""
        client = self.local.broker.sessions.new(name, monotonic_us())
        outbound = client.session.outbound
        for number in range(waiting):
            outbound.mailbox.add(message(number, 1, size=size, now=0))
        outbound.store_offline(0)
        for number in range(in_mailbox):
            outbound.mailbox.add(message(number, 1, now=0))
        return client

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Let the loop run until this is done."""
        return self.local.complete(work)

    def top(self, sort: str = "mqueue", count: int = 1000) -> list[str]:
        """Who is at the top."""
        return names(self.run(self.list.page(ListQuery(sort, count))))


def names(found: ListPage) -> list[str]:
    """The client ids, in their order."""
    return [json.loads(row)["client_id"] for row in found.rows]


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A broker without sockets."""
    with LocalBroker() as local:
        yield Bench(local)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time as the walks see it."""
    return Clock(monkeypatch)


@pytest.mark.parametrize("sort", ["mqueue", "bytes", "drops", "window_full", "mailbox"])
def test_equals_in_order(bench: Bench, sort: str) -> None:
    """Rows with equal values are listed by name."""
    for number in range(29, -1, -1):
        bench.client(f"c{number:02}")
    assert bench.top(sort, 3) == ["c00", "c01", "c02"]


def test_highest_first(bench: Bench) -> None:
    """The row with the highest value comes first, wherever the walk finds it."""
    for number in (3, 9, 1, 7, 5, 8, 2, 6, 4):
        bench.client(str(number), waiting=number)
    assert bench.top("mqueue", 4) == ["9", "8", "7", "6"]


def test_pages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """ListPage by page a list has each item once, and `last` of the last page is None."""
    monkeypatch.setattr(list_pages, "REST_SHARE", 0)
    for number in range(25):
        bench.client(f"c{number:02}", waiting=number % 3)
    seen: list[str] = []
    page = bench.run(bench.list.page(ListQuery("mqueue", 10)))
    seen += names(page)
    while page.last is not None:
        page = bench.run(bench.list.page(ListQuery("mqueue", 10, page.last)))
        seen += names(page)
    by_value = sorted(range(25), key=lambda number: (-(number % 3), number))
    assert seen == [f"c{number:02}" for number in by_value]
    assert (page.total, page.matched) == (25, 25)


def test_filters(bench: Bench) -> None:
    """Only items that all filters match are listed, and counted as matched."""
    for number in range(12):
        bench.client(f"c{number:02}", waiting=number % 2)
    filters = (("client_id", "c0"), ("waits_for", "client"))
    page = bench.run(bench.list.page(ListQuery("name", 3, filters=filters)))
    assert names(page) == ["c01", "c03", "c05"]
    assert (page.total, page.matched) == (12, 5)


def test_mailbox(bench: Bench) -> None:
    """`mailbox` sorts by the length of the mailbox."""
    bench.client("queue", waiting=9)
    bench.client("one", in_mailbox=1)
    bench.client("three", in_mailbox=3)
    assert bench.top("mailbox") == ["three", "one", "queue"]


def test_who_waits_shares_a_walk(bench: Bench) -> None:
    """One walk answers all requests that arrive at once, whatever they sort by."""
    bench.client("many", waiting=3)
    bench.client("large", waiting=1, size=100)

    questions = [("mqueue", 1), ("bytes", 1), ("mqueue", 2), ("drops", 1)]

    async def ask() -> list[ListPage]:
        return await asyncio.gather(*[bench.list.page(ListQuery(sort, count)) for sort, count in questions])

    assert [names(found)[0] for found in bench.run(ask())] == ["many", "large", "many", "large"]
    assert bench.listed.walks == 1


def test_rest_between_walks(bench: Bench, clock: Clock) -> None:
    """A request within a second of a walk gets the same answer; a later one causes a walk."""
    bench.client("a")
    assert bench.top() == ["a"]
    bench.client("b", waiting=1)
    clock.now += FRESH - 1
    assert bench.top() == ["a"]
    clock.now += 1
    assert bench.top() == ["b", "a"]
    assert bench.listed.walks == 2


def test_another_question_is_another_walk(bench: Bench) -> None:
    """A request for what the last walk did not look for causes another walk."""
    for number in range(5):
        bench.client(str(number), waiting=number)
    assert bench.top("mqueue", 2) == ["4", "3"]
    assert bench.top("mqueue", 4)[:4] == ["4", "3", "2", "1"]
    assert bench.top("drops", 1) == ["0"]
    assert bench.listed.walks == 3


def test_long_walks_are_rare(bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scans take at most a quarter of the time, however many sessions there are."""
    monkeypatch.setattr(slices, "SHORTEST_US", 10**9)
    monkeypatch.setattr(slices, "SLICE_US", 10**9)
    for number in range(1_000):
        bench.client(str(number))
    clock.step = 500_000
    before = clock.now
    bench.top("mqueue", 1)
    clock.step = 0
    walked = clock.now - before
    assert walked > 10 * 100_000
    bench.client("new", waiting=1)
    clock.now += FRESH
    assert bench.top("mqueue", 1) == ["0"]
    clock.now += 3 * walked
    assert bench.top("mqueue", 1) == ["new"]


def test_the_loop_has_its_turns(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk yields to the loop after each slice of sessions and of rows."""
    monkeypatch.setattr(slices, "SLICE_US", 0)
    monkeypatch.setattr(list_pages, "STEP", 10)
    monkeypatch.setattr(list_pages, "ROWS", 5)
    for number in range(100):
        bench.client(str(number))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)  # it counts the loop's turns

    async def ask() -> None:
        counting = asyncio.create_task(count_turns())
        await bench.list.page(ListQuery("mqueue", 50))
        counting.cancel()

    bench.run(ask())
    assert turns >= 100 // 10 + 50 // 5


def test_who_ends_meanwhile(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that ends during the walk is not listed; one that replaces it may be."""
    monkeypatch.setattr(slices, "SLICE_US", 0)
    monkeypatch.setattr(list_pages, "STEP", 1)
    broker = bench.local.broker
    clients = [bench.client(str(number), waiting=number + 1) for number in range(6)]

    async def ask() -> ListPage:
        asking = asyncio.create_task(bench.list.page(ListQuery("mqueue", 10)))
        for _ in range(4):
            await asyncio.sleep(0)  # a turn of the loop, in which some are looked at
        for ended in (clients[0], clients[5]):  # one that has been looked at, and one that has not
            broker.sessions.end(ended, 0)
        bench.client("5", waiting=100)
        return await asking

    page = bench.run(ask())
    assert names(page) == ["5", "4", "3", "2", "1"]
    assert json.loads(page.rows[0])["mqueue_len"] == 100


def test_who_has_ended_takes_nobodys_place(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that has ended takes no place in the list from one that is present."""
    monkeypatch.setattr(slices, "SLICE_US", 0)
    monkeypatch.setattr(list_pages, "STEP", 1)
    bench.client("there").session.outbound.sender.counters.count_drop("too_large", Publish(b"t", b"", 1))
    ended = bench.client("ended", waiting=5)

    async def ask() -> ListPage:
        asking = asyncio.create_task(bench.list.page(ListQuery("drops", 1)))
        await until(lambda: bench.listed.walks)
        bench.local.broker.sessions.end(ended, 0)
        return await asking

    assert names(bench.run(ask())) == ["there"]


def test_who_goes_away_takes_it_from_nobody(bench: Bench) -> None:
    """The others get their answers when one that waits for the walk gives up."""
    bench.client("a")

    async def ask() -> ListPage:
        impatient = asyncio.create_task(bench.list.page(ListQuery("mqueue", 1)))
        asking = asyncio.create_task(bench.list.page(ListQuery("mqueue", 1)))
        await asyncio.sleep(0)  # a turn of the loop: both have begun
        impatient.cancel()
        return await asking

    assert names(bench.run(ask())) == ["a"]


def test_a_failed_walk_is_not_the_last(bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait for a walk that fails get its error, and the next request starts another walk."""
    bench.client("a")
    with monkeypatch.context() as context:
        context.setattr(bench.listed, "is_there", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            bench.top()
    clock.now += FRESH
    assert bench.top() == ["a"]


@pytest.mark.usefixtures("clock")  # it stands still, so that answers stay fresh
def test_what_is_changed_while_a_walk_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks after an action gets no answer of a walk that began before it; who asked before is not held up."""
    bench.client("a")
    look, items = bench.listed.is_there, bench.listed.items
    later: list[asyncio.Task[ListPage]] = []

    def act_meanwhile(client: Client) -> bool:
        there = look(client)
        if not later:
            bench.client("b")
            bench.list.forget()
            later.append(asyncio.get_running_loop().create_task(bench.list.page(ListQuery("name", 10))))
        return there

    async def ask() -> tuple[ListPage, ListPage]:
        return await bench.list.page(ListQuery("name", 10)), await later[0]

    monkeypatch.setattr(bench.listed, "is_there", act_meanwhile)
    monkeypatch.setattr(bench.listed, "items", lambda: iter(list(items())))  # no walk shows who comes meanwhile
    before, after = bench.run(ask())
    assert sorted(names(before)) == ["a"]
    assert sorted(names(after)) == ["a", "b"]
