"""What the log remembers of clients, so that it does not repeat itself."""

from broker.connection.replies import shortened
from broker.events import MOST_EPISODES, Events
from broker.totals import Totals
from tests.memory.tables import OF_STRANGERS
from tests.memory.traced import tracing


def test_take_overs_that_are_logged() -> None:
    """However many clients take over each other's connections, and however long their ids are, few are remembered."""
    events = Events(Totals(), "info")
    with tracing() as traced:
        for number in range(MOST_EPISODES + 100):
            events.taken_over(shortened(f"{number}".ljust(60_000, "x")), "tcp", "192.0.2.1:1", "192.0.2.2:2", number)
        assert traced.bytes() < OF_STRANGERS["take-overs that are logged"]
