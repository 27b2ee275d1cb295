"""Topic aliases towards a client: which topics get them, and that the client can resolve each."""

from hypothesis import given
from hypothesis import strategies as st

from session.aliases import PERIOD, Aliases

topics = st.lists(st.sampled_from([b"topic/%d" % number for number in range(12)] + [b"t", b"abc"]), max_size=400)


@given(used=topics, maximum=st.integers(1, 5))
def test_client_always_knows(used: list[bytes], maximum: int) -> None:
    """An alias that is sent without its topic was last sent with that topic, within the client's maximum."""
    aliases = Aliases(maximum)
    aliases._left = 50  # reviews come often
    told: dict[int, bytes] = {}
    for topic in used:
        alias = aliases.known(topic)
        if alias:
            assert told[alias] == topic
        else:
            alias = aliases.assign(topic)
            assert 0 <= alias <= maximum
            if alias:
                told[alias] = topic


def use(aliases: Aliases, topic: bytes) -> int:
    """One delivery; returns the alias it has."""
    return aliases.known(topic) or aliases.assign(topic)


def test_first_come_then_most_used() -> None:
    """While aliases are free each new topic gets one; later the topics that are used most get them."""
    aliases = Aliases(2)
    assert [use(aliases, topic) for topic in (b"rare/1", b"rare/2", b"often/1")] == [1, 2, 0]
    for _ in range(PERIOD):
        use(aliases, b"often/1")
        use(aliases, b"often/2")
    taken = {use(aliases, b"often/1"), use(aliases, b"often/2")}
    assert taken == {1, 2}
    assert [use(aliases, b"rare/1"), use(aliases, b"rare/2")] == [0, 0]


def test_least_used_makes_room() -> None:
    """A topic that is used more than one with an alias takes over the alias of the topic that is used least."""
    aliases = Aliases(2)
    assert [use(aliases, topic) for topic in (b"rare", b"often", b"newer")] == [1, 2, 0]
    for _ in range(PERIOD):
        for topic in (b"newer", b"often", b"often"):
            use(aliases, topic)
    assert [use(aliases, topic) for topic in (b"rare", b"often", b"newer")] == [0, 2, 1]


def test_each_period_is_reviewed() -> None:
    """The topic that was used most in a period has the alias in the next one, however many periods have passed."""
    aliases = Aliases(1)
    names = [b"topic/%d" % number for number in range(4)]
    for name in names:
        for _ in range(PERIOD):
            use(aliases, name)
        assert [use(aliases, each) for each in names] == [int(each == name) for each in names]


def test_equals_do_not_take_turns() -> None:
    """Topics of equal use keep their aliases, because each change costs sending the topic again."""
    aliases = Aliases(2)
    names = [b"topic/%d" % number for number in range(4)]
    first = [use(aliases, name) for name in names]
    for _ in range(PERIOD):
        for name in names:
            use(aliases, name)
    assert [use(aliases, name) for name in names] == first


def test_short_topics_have_none() -> None:
    """A topic that is no longer than an alias is sent without one."""
    aliases = Aliases(10)
    assert use(aliases, b"abc") == 0
    assert use(aliases, b"abcd") == 1
