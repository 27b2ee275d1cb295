"""FC-24: which rule applies to a topic, and that unused addresses are forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from broker.addresses.full_address import FullAddress
from broker.broker import Broker
from broker.routing.address_book import SPARE, AddressBook
from config.models import Config
from session.address import Address, AddressRule
from tests.support.broker.full import LIMIT, local_broker, publisher, send, subscriber, take


def book(*rules: tuple[str, int]) -> AddressBook:
    """Filters and their limits."""
    return AddressBook([(topic_filter, AddressRule(size)) for topic_filter, size in rules])


def limit(found: Address | None) -> int:
    """What a topic is limited to; 0 = it is not."""
    return 0 if found is None else found.rule.max_size_bytes


def test_no_rules() -> None:
    """FC-24: without a rule there are no limits."""
    assert book().find(b"a", {}) is None


def test_most_specific() -> None:
    """FC-24: level by level from the left, a name precedes `+`, and `+` precedes `#`."""
    rules = book(("#", 1), ("a/#", 2), ("a/+/c", 3), ("+/b/c", 4), ("a/b/+", 5), ("x/y", 6))
    topics = [b"z", b"a", b"a/x/c", b"x/b/c", b"a/b/c", b"x/y", b"$SYS/a"]
    assert [limit(rules.find(topic, {})) for topic in topics] == [1, 2, 3, 4, 5, 6, 0]


def test_one_address_for_one_topic() -> None:
    """FC-24: a topic has one address while a delivery or the cache refers to it."""
    rules = book(("#", 10))
    held, remembered, idle = (rules.find(topic, {}) for topic in (b"held", b"remembered", b"idle"))
    assert held is not None
    held.count(1)
    for number in range(3 * SPARE):
        rules.find(b"%d" % number, {b"remembered": True})
    assert rules.find(b"held", {}) is held
    assert rules.find(b"remembered", {}) is remembered
    assert rules.find(b"idle", {}) is not idle


@given(st.lists(st.booleans(), max_size=20), st.integers(1, 20))
def test_idle_ones_are_forgotten(held: list[bool], times: int) -> None:
    """FC-24: the unused addresses are at most as many as those in use, and a few, for any number of topics."""
    rules = book(("#", 10))
    used = 0
    for number in range(SPARE // 20 * times):
        for place, hold in enumerate(held):
            address = rules.find(b"%d/%d" % (number, place), {})
            assert address is not None
            if hold:
                address.count(1)
                used += 1
    assert len(rules) <= max(SPARE, 2 * used) + 2


def test_topics_that_come_and_go() -> None:
    """FC-24: topics that are published to once are forgotten with the router's cache."""
    broker = Broker(Config.model_validate({"addresses": [{"match": "#", "max_size_bytes": 10}]}), 0)
    router = broker.router
    for number in range(10 * SPARE):
        assert router.address(b"%d" % number) is not None
    assert len(router.addresses) <= SPARE


def test_full_address_is_kept() -> None:
    """FC-24: an address whose episode is not over is kept, and forgotten afterwards."""
    with local_broker() as local:
        reader = subscriber(local)
        sender = publisher(local)
        send(sender, range(1, 12))
        address = local.broker.router.address(b"full/a")
        assert address is not None
        assert isinstance(address.watcher, FullAddress)
        assert address.size == LIMIT
        take(reader, 11)
        local.pass_time(2)
        assert address.watcher is None
        assert local.broker.addresses.full == 0


def test_restored() -> None:
    """FC-26: a topic that had pages before a restart is an address again: under its rule, or without a limit."""
    rules = book(("a/#", 10))
    limited, unlimited = rules.restore(b"a/b", {}), rules.restore(b"b", {})
    assert (limited.topic, unlimited.topic) == (b"a/b", b"b")
    for address in (limited, unlimited):
        address.count(10)
    assert not limited.fits(1)
    assert unlimited.fits(1 << 40)
    assert rules.find(b"b", {}) is unlimited
