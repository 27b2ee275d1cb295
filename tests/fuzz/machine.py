"""The connection state machine as a target: scripts of what several clients do to one broker."""

import random
from collections.abc import Iterator

from tests.fuzz import brokers, mutation, script
from tests.fuzz.observer import Observer
from tests.fuzz.packets import any_packet, connect
from tests.fuzz.script import CONNECTIONS, MOST_STEPS, Script, Step
from tests.fuzz.target import Native
from tests.fuzz.world import play
from tests.support.protocol.packets import content

SHOWN = 90
"""Characters of a packet in a comment."""


class Machine:
    """Whatever clients send and in whatever order, the broker serves the honest ones and forgets the others."""

    name = "machine"
    most_bytes = 20_000

    def check(self, data: bytes) -> None:
        """Let it happen; what is no script is left out."""
        found = _script(data)
        if found is not None:
            for _ in play(found):
                pass

    def trace(self, data: bytes) -> Iterator[str]:
        """Tell what happens and what comes back."""
        found = _script(data)
        return iter(["this is no script"]) if found is None else play(found)

    def mutate(self, source: random.Random, data: bytes, native: Native) -> bytes:
        """Add, remove, move or change a few steps."""
        found = _script(data) or Script("plain", ())
        steps = list(found.steps)
        broker = source.choice(brokers.NAMES) if source.random() < 0.05 else found.broker
        for _ in range(source.choice((1, 1, 2, 4))):
            change(source, steps, native)
        return str(Script(broker, tuple(steps[:MOST_STEPS]))).encode()

    def cross(self, source: random.Random, one: bytes, other: bytes) -> bytes:
        """Let one happen up to anywhere, then the end of the other."""
        first, second = _script(one), _script(other)
        if first is None or second is None:
            return one
        head = first.steps[: source.randint(0, len(first.steps))]
        tail = second.steps[source.randint(0, len(second.steps)) :]
        return str(Script(first.broker, (head + tail)[:MOST_STEPS])).encode()

    def smaller(self, data: bytes) -> Iterator[bytes]:
        """Leave out steps."""
        found = _script(data) or Script("plain", ())
        size = len(found.steps)
        while size > 0:
            for at in range(0, len(found.steps), size):
                yield str(found._replace(steps=found.steps[:at] + found.steps[at + size :])).encode()
            size //= 2

    def parse(self, text: str) -> bytes:
        """Check that it is a script."""
        return str(script.read(text)).encode()

    def render(self, data: bytes) -> str:
        """Write the steps, with the packets that they send beside them."""
        found = _script(data)
        if found is None:
            return ""
        observers = [Observer(0) for _ in range(CONNECTIONS)]
        lines = [f"broker {found.broker}"]
        for step in found.steps:
            note = ""
            if step.verb == "open":
                observers[step.connection] = Observer(0)
            elif step.verb == "send":
                note = _note(observers[step.connection], step.data)
            lines.append(f"{step}{note}")
        return "\n".join(lines) + "\n"


def _note(observer: Observer, data: bytes) -> str:
    before = observer.error
    shown = []
    for packet in observer.says(data):
        name, *fields = content(packet)
        shown.append(f"{name} {', '.join(map(repr, fields)):.{SHOWN}}".rstrip())
    if observer.error is not None:
        shown.append("..." if before is observer.error else f"{observer.error.message:.{SHOWN}}")
    return f"  # {'; '.join(shown) or '...'}"


def _script(data: bytes) -> Script | None:
    try:
        found = script.read(data.decode())
    except ValueError:
        return None
    return found if found.broker in brokers.NAMES else None


def change(source: random.Random, steps: list[Step], native: Native) -> None:
    """Change a list of steps in one way."""
    kind = source.randrange(10)
    place = source.randrange(len(steps)) if steps else 0
    if not steps or kind <= 2:
        steps[place:place] = some_steps(source)
    elif kind == 3:
        steps += some_steps(source)
    elif kind == 4:
        del steps[place : place + source.choice((1, 1, 3))]
    elif kind == 5:
        steps.insert(source.randrange(len(steps) + 1), steps[place])
    elif kind == 6:
        steps.insert(source.randrange(len(steps)), steps.pop(place))
    elif kind == 7:
        steps[place] = steps[place]._replace(connection=source.randrange(CONNECTIONS))
    else:
        sends = [number for number, step in enumerate(steps) if step.verb == "send"]
        if sends:
            place = source.choice(sends)
            steps[place : place + 1] = _changed(source, steps[place], native)


def _changed(source: random.Random, step: Step, native: Native) -> list[Step]:
    """What a client sends, damaged or in two halves."""
    data = step.data
    kind = source.randrange(5)
    if kind == 0:
        cut = source.randint(0, len(data))
        return [step._replace(data=data[:cut]), step._replace(data=data[cut:])]
    if kind == 1:
        return [step._replace(data=data + any_packet(source, source.choice((4, 5))))]
    if kind == 2:
        return [step._replace(data=native(data))]
    changed = mutation.damage(source, data)
    return [step._replace(data=mutation.fix_length(changed) if kind == 3 else changed)]


def some_steps(source: random.Random) -> list[Step]:
    """Draw something that may happen: often one step, sometimes a connection with its CONNECT."""
    connection = source.randrange(CONNECTIONS)
    version = source.choice((4, 5))
    kind = source.randrange(16)
    if kind <= 2:
        return [Step("open", connection), Step("send", connection, connect(source, version).encode(version))]
    if kind <= 9:
        return [Step("send", connection, any_packet(source, version))]
    if kind == 10:
        return [Step("wait", seconds=source.choice((0.1, 1.5, 6.0, 16.0, 40.0)))]
    if kind == 11:
        return [Step("count")]
    if kind <= 13:
        return [Step("ack", connection)]
    return [Step(source.choice(("answer", "deaf", "hear", "end", "lose")), connection)]

