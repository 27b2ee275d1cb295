"""How late the event loop is."""

from broker.runtime.loop_delay import HALF, LoopDelay
from broker.runtime.timers import TICK


def test_the_longest_delay_is_remembered_for_half_a_minute() -> None:
    """A tick that was late is told for half a minute to a minute, whoever asks, and then forgotten."""
    delay, now = LoopDelay(), HALF
    for late in (0, 2_000, 700_000, 5_000):
        now += late
        delay.tick(now, now + TICK)
        now += TICK
    assert (delay.longest(now), delay.longest(now)) == (700_000, 700_000)
    for _ in range(HALF // TICK):
        delay.tick(now, now + TICK)
        now += TICK
    assert delay.longest(now) == 700_000
    for _ in range(HALF // TICK):
        delay.tick(now, now + TICK)
        now += TICK
    assert delay.longest(now) == 0


def test_the_first_tick_is_not_late() -> None:
    """A broker that has just begun has no delay, and one whose tick has not come has that of it."""
    delay = LoopDelay()
    assert delay.longest(5 * HALF) == 0
    delay.tick(5 * HALF, 5 * HALF + TICK)
    assert delay.longest(5 * HALF + TICK) == 0
    assert delay.longest(5 * HALF + 3 * TICK) == 2 * TICK
