"""What happens to a broker in one input: a line for each step, in words.

    broker small      which of the brokers in `brokers.py`; the first line, `plain` without it
    open 0            a client opens connection 0
    send 0 c000       it sends these bytes, in hexadecimal
    ack 0             it acknowledges all that it has been sent, as an honest client does
    answer 0          it answers the last AUTH as one who knows the password
    deaf 0            it reads no further, and the broker notices
    hear 0            it reads again
    end 0             it closes its side, and says that in the ordinary way
    lose 0            the connection breaks
    wait 3.5          so many seconds go by
    count             an interval of the metrics ends
"""

from typing import Final, NamedTuple

CONNECTIONS: Final = 5
"""Connections that a script can have at once."""
TLS: Final = (3, 4)
"""Those among them that cannot be closed from one side only, as with TLS layers that do not know how."""
LONGEST_WAIT: Final = 600.0
MOST_STEPS: Final = 60

ON_CONNECTION: Final = ("open", "send", "ack", "answer", "deaf", "hear", "end", "lose")
VERBS: Final = (*ON_CONNECTION, "wait", "count")


class Step(NamedTuple):
    """One line; what it does not need is left at its default."""

    verb: str
    connection: int = 0
    data: bytes = b""
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.verb == "wait":
            return f"wait {self.seconds:g}"
        if self.verb == "count":
            return "count"
        return f"{self.verb} {self.connection}" + (f" {self.data.hex()}" if self.data else "")


class Script(NamedTuple):
    """All that happens, and to which broker."""

    broker: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join([f"broker {self.broker}", *map(str, self.steps)])


def read(text: str) -> Script:
    """Read a script without comments; ValueError if it is none."""
    broker = "plain"
    steps: list[Step] = []
    for line in text.splitlines():
        verb, _, rest = line.partition(" ")
        if verb == "broker" and not steps:
            broker = rest
        else:
            steps.append(_step(verb, rest))
    if len(steps) > MOST_STEPS:
        raise ValueError(f"{len(steps)} steps are too many")
    return Script(broker, tuple(steps))


def _step(verb: str, rest: str) -> Step:
    if verb not in VERBS:
        raise ValueError(f"there is no step {verb[:20]!r}")
    if verb == "count":
        return Step(verb)
    if verb == "wait":
        seconds = float(rest)
        if not 0 <= seconds <= LONGEST_WAIT:
            raise ValueError(f"a wait of {seconds:g} seconds")
        return Step(verb, seconds=seconds)
    number, _, digits = rest.partition(" ")
    connection = int(number)
    if not 0 <= connection < CONNECTIONS:
        raise ValueError(f"there is no connection {connection}")
    return Step(verb, connection, bytes.fromhex(digits))
