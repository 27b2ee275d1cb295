"""The storms: what they do to a broker, and what is said about it."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bench import storm
from tests.bench.storms.__main__ import STORMS
from tests.bench.storms.at_quotas import REACHED
from tests.bench.storms.plan import Plan, Storm, Tally
from tests.support.broker.events import events
from tests.support.brokers import start_sluice
from tests.support.certificates import make_certificates
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once

SCENARIO = storm.Scenario(500, 1, 1, 20, 12, 40, 100)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker as the storms expect it."""
    with start_sluice(tmp_path, (), storm.sections(tmp_path, make_certificates(tmp_path))) as running:
        yield running


async def blow(each: Storm, plan: Plan, enough: Any) -> Counter[str]:
    """Run a storm until it is ready, and has done enough; returns what it has done."""
    tally = Tally()
    task = asyncio.get_running_loop().create_task(each(plan, tally))
    try:
        async with asyncio.timeout(60):
            while not (tally.ready and enough(tally.counts)):
                await asyncio.wait([task], timeout=0.05)
                assert not task.done(), task.result()
    finally:
        task.cancel()
        await asyncio.wait([task])
    return tally.counts


async def test_logins(broker: BrokerProcess) -> None:
    """All passwords are wrong, whether the user exists or not."""
    counts = await blow(STORMS["logins"], SCENARIO.plan(broker), lambda counts: counts["0x86"] > 5)
    assert set(counts) <= {"tried", "0x86", "0x89", "0x9F"}


async def test_half_open(broker: BrokerProcess) -> None:
    """As many connections as planned are open, and stay so."""
    plan = SCENARIO.plan(broker)
    counts = await blow(STORMS["half-open"], plan, lambda counts: counts["opened"] == plan.half_open)
    assert counts == {"opened": plan.half_open, "most": plan.half_open}


async def test_quotas(broker: BrokerProcess) -> None:
    """Both users reach their limits, and each is logged once for each user."""
    wait_until(lambda: storm.serves(broker), "the admin API", 60)
    await blow(STORMS["quotas"], SCENARIO.plan(broker), lambda _: storm.reached(broker).keys() >= REACHED)
    logged = [(each["user"], each["quota"]) for each in events(broker, "quota_reached")]
    assert {quota for _, quota in logged} == REACHED
    assert len(logged) == len(set(logged))


async def test_hostile(broker: BrokerProcess) -> None:
    """One session joins all groups, and another one guesses on, until it is not read any more."""
    plan = SCENARIO.plan(broker)
    counts = await blow(STORMS["hostile"], plan, lambda counts: counts["published to eve/deaf"] > 5)
    assert counts["groups"] == plan.groups
    assert counts["guessed"] > 0


def test_as_a_process(broker: BrokerProcess) -> None:
    """A storm says when it blows, and in the end what it has done."""
    blowing = storm.start(replace(SCENARIO, half_open=4).plan(broker), ["half-open"])
    assert storm.end(blowing) == {"half-open": {"most": 4, "opened": 4}}


def test_others(broker: BrokerProcess) -> None:
    """A known user and new ones log in; who is refused is counted."""
    visits = storm.Visits()
    others = storm.Others(broker.address("guarded"), visits, iter(range(10)))
    others.visit(storm.KNOWN, "127.0.0.1")
    others.visit(storm.newcomer(1), "127.1.0.1")
    assert (visits.codes, visits.refused) == ({"0x00": 2}, 0)
    others.visit("mallory", "127.1.0.1")
    assert (visits.codes["0x86"], visits.refused, len(visits.seconds)) == (1, 1, 3)


def result(p99_us: float, lost: int = 0) -> dict[str, Any]:
    """The part of blast's results that is used."""
    return {"latency": {"p99_us": p99_us}, "lost": lost, "skipped": 0}


def test_what_is_asserted() -> None:
    """Latency, lost messages, refused logins, memory, and quotas that were not reached are each reported."""
    good = storm.Outcome([result(1000)], [result(1900)], reached=dict.fromkeys(REACHED, 1))
    good.visits.codes = {"0x00": 3}
    good.rss_most = SCENARIO.allowed(storm.ALL)
    assert set(storm.claims(good, SCENARIO, storm.ALL).values()) == {True}
    bad = storm.Outcome([result(1000)], [result(2001, 1)])
    bad.rss_most = good.rss_most + 1
    assert set(storm.claims(bad, SCENARIO, storm.ALL).values()) == {False}
    good.visits.codes["0x89"] = 1
    assert not storm.claims(good, SCENARIO, "logins")["nobody else is refused"]
