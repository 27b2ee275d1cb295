"""Storms in a process of their own: `python -m tests.bench.storms PLAN NAME...`.

It says `ready` when all blow as hard as they will, and at the end of its standard input what they have done, as JSON.
"""

import asyncio
import json
import resource
import sys
from typing import Final

from tests.bench.storms.at_quotas import at_quotas
from tests.bench.storms.half_open import half_open
from tests.bench.storms.hostile import hostile
from tests.bench.storms.logins import wrong_logins
from tests.bench.storms.plan import Plan, Storm, Tally

STORMS: Final[dict[str, Storm]] = {
    "logins": wrong_logins,
    "half-open": half_open,
    "quotas": at_quotas,
    "hostile": hostile,
}


async def blow(plan: Plan, names: list[str]) -> dict[str, dict[str, int]]:
    """Run these storms until standard input ends; returns their counts."""
    tallies = {name: Tally() for name in names}
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(STORMS[name](plan, tally)) for name, tally in tallies.items()]
    over = loop.run_in_executor(None, sys.stdin.read)
    while not over.done() and not all(tally.ready for tally in tallies.values()):
        await asyncio.wait([over, *tasks], timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    print("ready", flush=True)
    await asyncio.wait([over, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {name: dict(sorted(tally.counts.items())) for name, tally in tallies.items()}


def main() -> None:
    """Blow."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(json.dumps(asyncio.run(blow(Plan.of(sys.argv[1]), sys.argv[2:]))), flush=True)


if __name__ == "__main__":
    main()
