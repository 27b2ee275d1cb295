"""What the log remembers of clients, so that it does not repeat itself."""

from broker.events import MOST_EPISODES, Events
from broker.log_limits import MOST_SOURCES, LogLimits
from broker.totals import Totals
from protocol.replies import shortened
from tests.memory.tables import OF_STRANGERS
from tests.memory.traced import tracing


def test_take_overs_that_are_logged() -> None:
    """However many clients take over each other's connections, and however long their ids are, few are remembered."""
    events = Events(Totals(), "info")
    with tracing() as traced:
        for number in range(MOST_EPISODES + 100):
            events.taken_over(shortened(f"{number}".ljust(60_000, "x")), "tcp", "192.0.2.1:1", "192.0.2.2:2", number)
        assert traced.bytes() < OF_STRANGERS["take-overs that are logged"]


def test_lines_of_the_log_that_are_counted() -> None:
    """Of however many sources lines come, those of 1,000 are counted by themselves; others count together."""
    limits = LogLimits(50, clock=lambda: 0)
    with tracing() as traced:
        for number in range(2 * MOST_SOURCES):
            limits.admit("client_refused", f"listener-{number}")
        assert traced.bytes() < OF_STRANGERS["lines of the log that are counted"]


def test_users_at_a_limit_that_are_logged() -> None:
    """However many users reach a limit, and however long their names are, few are remembered."""
    events = Events(Totals(), "info")
    with tracing() as traced:
        for number in range(MOST_EPISODES + 100):
            events.quota_reached("max_connections", 1, f"{number}".ljust(60_000, "x"), "c", number)
        assert traced.bytes() < OF_STRANGERS["users at a limit that are logged"]
