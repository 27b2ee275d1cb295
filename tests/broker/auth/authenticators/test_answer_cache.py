"""Answers that are kept for a while: how long, how many, and of which login."""

from broker.auth.authenticators.answer_cache import AnswerCache
from broker.auth.authenticators.authenticator import Login, No
from broker.auth.identity import Identity

ANN = Identity("ann")


def test_time_and_number() -> None:
    """An answer counts until its time is over, and the oldest goes when there are too many."""
    now = 100.0
    cache = AnswerCache(2, 10, lambda: now)
    cache.put(b"a", ANN)
    now = 105.0
    cache.put(b"b", No.DENIED)
    assert (cache.get(b"a"), cache.get(b"b"), cache.get(b"c")) == (ANN, No.DENIED, None)
    now = 110.0
    assert (cache.get(b"a"), cache.get(b"b")) == (None, No.DENIED)
    cache.put(b"c", ANN)
    cache.put(b"d", ANN)
    assert len(cache) == 2
    assert (cache.get(b"b"), cache.get(b"c"), cache.get(b"d")) == (None, ANN, ANN)
    cache.put(b"c", No.DENIED)
    assert len(cache) == 2
    assert cache.get(b"c") is No.DENIED


def test_off() -> None:
    """With a time of 0 nothing is kept."""
    cache = AnswerCache(2, 0, lambda: 0.0)
    cache.put(b"a", ANN)
    assert len(cache) == 0


def test_keys() -> None:
    """Each part of a login counts, and parts cannot be mistaken for each other; another cache has other keys."""
    cache = AnswerCache(2, 1, lambda: 0.0)
    logins = [
        Login("a", b"b"),
        Login("ab", b""),
        Login("a", None),
        Login("a", b""),
        Login("a", b"b", "c"),
        Login("a", b"b", "", "c"),
        Login("a", b"b", "", "", "c"),
        Login("a", b"b", "", "", "", "c"),
    ]
    keys = {cache.key(login) for login in logins}
    assert len(keys) == len(logins)
    assert cache.key(logins[0]) in keys
    assert AnswerCache(2, 1, lambda: 0.0).key(logins[0]) not in keys
