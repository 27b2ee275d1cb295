"""What a reload does with each listener."""

import pytest

from broker.server.listener_plan import SYSTEMD, plan_listeners
from config.models import Listener

pytestmark = pytest.mark.once

A = Listener(name="a", bind="127.0.0.1:1883")
B = Listener(name="b", bind="127.0.0.1:1884")
UNIT = Listener(name="unit", bind="systemd:mqtt")


def test_nothing() -> None:
    """Listeners that are the same stay, in whatever order."""
    found = plan_listeners([A, B], [B, A])
    assert (found.stay, found.opened, found.closed, found.restart) == ([(B, B), (A, A)], [], [], {})
    assert found.applied == [B, A]


def test_other_settings() -> None:
    """A listener whose settings are others stays open."""
    new = A.model_copy(update={"allow_anonymous": False})
    found = plan_listeners([A], [new])
    assert (found.stay, found.opened, found.closed, found.applied) == ([(A, new)], [], [], [new])


def test_opened_and_closed() -> None:
    """Another name is another listener; the clients of the one that is gone have to go."""
    found = plan_listeners([A], [B])
    assert (found.opened, found.closed, found.gone, found.applied) == ([B], [A], [A], [B])


def test_moved() -> None:
    """A listener that is somewhere else is opened there and closed here, and its clients stay."""
    new = Listener(name="a", bind="0.0.0.0:1883")
    found = plan_listeners([A, B], [new, B])
    assert (found.opened, found.closed, found.gone, found.stay) == ([new], [A], [], [(B, B)])
    assert found.moved == [(A, new)]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        pytest.param([A, UNIT], [A], "listeners (unit)", id="gone"),
        pytest.param([A], [A, UNIT], "listeners[1].bind", id="new"),
        pytest.param([A, UNIT], [A, Listener(name="unit", bind="127.0.0.1:1")], "listeners[1].bind", id="from systemd"),
        pytest.param([A], [Listener(name="a", bind="systemd:mqtt")], "listeners[0].bind", id="to systemd"),
    ],
)
def test_sockets_of_systemd(old: list[Listener], new: list[Listener], key: str) -> None:
    """They are neither opened nor closed, which is said; everything is as before."""
    found = plan_listeners(old, new)
    assert found.restart == {key: SYSTEMD}
    assert (found.opened, found.closed, found.applied) == ([], [], old)


def test_another_name_for_a_socket_of_systemd() -> None:
    """A listener of another name can have it."""
    new = Listener(name="other", bind="systemd:mqtt")
    found = plan_listeners([UNIT], [new])
    assert (found.opened, found.closed, found.restart) == ([new], [UNIT], {})
