"""What may happen to a session, at random: each move is a function of the world and a source of randomness."""

from collections.abc import Callable
from random import Random
from typing import Final

from tests.model.message import SECOND
from tests.model.source import OtherSource, Source
from tests.model.state import Inflight
from tests.model.world import World

TOPICS: Final = ["a/x", "a/y", "b", "c/d/e"]
SIZES: Final = [1, 4, 4, 20, 20, 70, 150] * 4 + [40_000]
EXPIRIES: Final = [0, 0, 0, 0, 1, 4]
FATES: Final = ["routed", "routed", "nobody", "refused", "parked", "paged"]
WAITS: Final = [1, 999, 20_000, 100_000, 150_000, SECOND // 2, SECOND, SECOND, 2 * SECOND, 3 * SECOND - 1, 61 * SECOND]
REASON_CODES: Final = [0, 0, 0, 0, 0x10, 0x80, 0x97]
ENOUGH: Final = 300
"""Where so many deliveries wait, none come hundreds at once: the model is slow, and has seen it all."""

Move = Callable[[World, Random], None]


def publish(world: World, rng: Random) -> None:
    """Messages of any kind are handed over."""
    for _ in range(rng.randint(1, 12)):
        kind = rng.randint(0, 2), rng.choice(SIZES), rng.choice(TOPICS), rng.choice(EXPIRIES)
        world.publish(*kind, any_source(world.sources, rng))


def any_source(sources: list[Source], rng: Random) -> Source | None:
    """Who publishes next; None: the broker itself, or somebody who is gone."""
    online = [source for source in sources if source.model.connected]
    return rng.choice(online) if online and rng.random() < 0.5 else None


def deliver(world: World, rng: Random) -> None:
    """Messages are handed over, and the session makes passes until it has nothing to do."""
    publish(world, rng)
    world.run()


def burst(world: World, rng: Random) -> None:
    """More messages than one pass takes, by number or by bytes, or about as many as make a mailbox busy."""
    if len(world.model.mqueue.waiting) > ENOUGH:
        return
    qos, topic = rng.choice([0, 0, 1, 2]), rng.choice(TOPICS)
    # 64 packets of 4,096 bytes are just what a pass writes, 64 of 1,024 what it writes while any waits.
    size = rng.choice([4, 4, 1_000, 1_024 - 5 - len(topic), 4_096 - 5 - len(topic)])
    source = any_source(world.sources, rng)
    for _ in range(rng.choice([0, 100, 100, 200]) + rng.choice([1, 4, 5, 6, 10, 11, 15])):
        world.publish(qos, size, topic, 0, source)
    if rng.random() < 0.7:
        world.run()


def run_pass(world: World, rng: Random) -> None:
    """The session makes one pass, if it is awake."""
    if world.real.awake:
        world.run_pass()


def run(world: World, rng: Random) -> None:
    """The session makes passes until it has nothing to do."""
    world.run()


def stall(world: World, rng: Random) -> None:
    """The transport's buffer fills up."""
    world.pause()


def resume(world: World, rng: Random) -> None:
    """It empties."""
    world.resume()


def connect(world: World, rng: Random) -> None:
    """The client comes back, in this version or that, with other limits of its own."""
    version = rng.choice([4, 5])
    receive_maximum = rng.choice([0, 0, 1, 2, 5, 40]) if version == 5 else 0
    world.connect(version, receive_maximum, rng.choice([0, 0, 0, 50]) if version == 5 else 0)


def disconnect(world: World, rng: Random) -> None:
    """The connection breaks: what the client has acknowledged and is still on the way is lost with it."""
    world.disconnect()


def reconnect(world: World, rng: Random) -> None:
    """The connection breaks, and the client is back at once."""
    world.disconnect()
    connect(world, rng)


def chunk(world: World, rng: Random) -> None:
    """The client acknowledges some of what it has, mostly rightly and in order, and publishes: all read at once."""
    for _ in range(rng.randint(1, 6)):
        kind = rng.random()
        if kind < 0.75:
            if not _acknowledge(world, rng):
                return
        elif kind < 0.9:
            if not world.send(*_any_publish(rng, 4)):
                return  # it broke a rule, and is disconnected
        else:
            world.release(rng.randint(1, 4))
    world.end_chunk()


def _any_publish(rng: Random, ids: int) -> tuple[int, int, str, bool]:
    """What the client publishes: QoS, packet id, what comes of it, DUP."""
    qos = rng.randint(0, 2)
    return qos, rng.randint(1, ids), rng.choice(FATES), qos > 0 and rng.random() < 0.5


def send(world: World, rng: Random) -> None:
    """The client publishes as much as it may, or more, and releases some: all read at once."""
    for _ in range(rng.randint(1, 8)):
        if rng.random() < 0.2:
            world.release(rng.randint(1, 6))
        elif not world.send(*_any_publish(rng, 6)):
            return
    world.end_chunk()


def catch_up(world: World, rng: Random) -> None:
    """The client acknowledges all that it has, in one chunk."""
    for inflight in list(world.model.window):
        if inflight.message.qos == 2 and inflight.waits_for == "PUBREC":
            world.acknowledge("PUBREC", inflight.packet_id, 0)
        world.acknowledge("PUBACK" if inflight.message.qos == 1 else "PUBCOMP", inflight.packet_id, 0)
    world.end_chunk()


def _acknowledge(world: World, rng: Random) -> bool:
    window = world.model.window
    if window and rng.random() < 0.85:
        inflight: Inflight = window[0] if rng.random() < 0.5 else rng.choice(window)
        return world.acknowledge(inflight.waits_for, inflight.packet_id, rng.choice(REASON_CODES))
    # For what it never got, or of the wrong kind perhaps: rarely, because that is the end of the connection.
    ids = [inflight.packet_id for inflight in window[:5] if rng.random() < 0.2] + [1, 2, 65_535]
    return world.acknowledge(rng.choice(["PUBACK", "PUBREC", "PUBCOMP"]), rng.choice(ids), rng.choice(REASON_CODES))


def settle_parked(world: World, rng: Random) -> None:
    """A PUBLISH that was parked is answered."""
    if world.parked:
        world.unpark(rng.randrange(len(world.parked)), rng.choice(["routed", "nobody", "refused"]))


def wait(world: World, rng: Random) -> None:
    """Time passes, a little or much; timers fire on time, or late."""
    late = rng.random() < 0.3
    world.wait(rng.choice(WAITS), late)
    if late and rng.random() < 0.7:
        world.fire()
    for source in world.others:
        if late:
            source.fire()


def come_and_go(world: World, rng: Random) -> None:
    """A publisher goes, or comes."""
    come_or_go(rng.choice(world.others))


def come_or_go(source: OtherSource) -> None:
    """It goes if it is there, else it comes."""
    if source.model.connected:
        source.disconnect()
    else:
        source.connect()


def fire(world: World, rng: Random) -> None:
    """A timer fires, be it due or not."""
    world.fire()


def end_interval(world: World, rng: Random) -> None:
    """The metrics interval ends."""
    world.end_interval()


def hold_back(world: World, rng: Random) -> None:
    """The client is not read, for this reason or that, or is read again."""
    world.hold_back(rng.random() < 0.5, rng.random() < 0.5)


def end(world: World, rng: Random) -> None:
    """The session ends."""
    world.end()


ANYTIME: Final[dict[Move, float]] = {
    publish: 8, burst: 4, settle_parked: 2, wait: 10, fire: 1, end_interval: 2, end: 0.1, come_and_go: 0.5
}  # fmt: skip
"""What may happen whether a client is there or not, and how often, relatively."""
ONLINE: Final[dict[Move, float]] = {
    deliver: 16, run_pass: 8, run: 10, stall: 2, resume: 4, disconnect: 1, reconnect: 1, chunk: 24, catch_up: 4,
    send: 5, hold_back: 1,
}  # fmt: skip
OFFLINE: Final[dict[Move, float]] = {connect: 15}


def play(world: World, rng: Random, move: Move) -> None:
    """Make one move, then compare."""
    move(world, rng)
    world.check()


def any_move(world: World, rng: Random) -> Move:
    """What may happen next."""
    moves = ANYTIME | (ONLINE if world.model.connected else OFFLINE)
    return rng.choices(list(moves), list(moves.values()))[0]
