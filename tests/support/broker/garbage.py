"""What a broker leaves to the garbage collector, which does not search what lives long."""

import json
import os
import signal
from collections.abc import Callable

from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

OFTEN = 10
_MARK = '{"garbage"'
PREPARE = """
import collections, gc, json, os, signal, sys

def types():
    kinds = collections.Counter(type(each) for each in gc.get_objects())
    del kinds[dict], kinds[tuple]  # the collector ceases to track those that refer to nothing it tracks
    return collections.Counter({f"{kind.__module__}.{kind.__qualname__}": count for kind, count in kinds.items()})

def search(*_):
    # Another thread, such as the one that looks at certificates, may free objects between the two counts.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(100)
    types()  # a thread that waits already has its turn here
    before = types()  # not gc.garbage: it lacks what is freed when the collector closes a generator
    gc.collect()
    found = before - types()
    sys.setswitchinterval(interval)
    os.write(2, f"\\n{json.dumps({'garbage': found})}\\n".encode())  # the signal may come while a line is printed

gc.disable()
gc.enable = lambda: None
signal.signal(signal.SIGUSR1, search)
"""
"""The collector searches only when it is asked to, and says what it has found."""


def garbage(broker: BrokerProcess) -> dict[str, int]:
    """What a search finds now: how many objects of which type."""

    def found() -> list[str]:
        # It may come between a line of the log and the end of that line.
        return [line[line.index(_MARK) :] for line in broker.stderr.splitlines() if _MARK in line]

    before = len(found())
    os.kill(broker.pid, signal.SIGUSR1)
    broker.wait_for_output(lambda _: len(found()) > before, "search")
    types: dict[str, int] = json.loads(found()[-1])["garbage"]
    return types


def left_by(broker: BrokerProcess, act: Callable[[], object], often: int = OFTEN) -> dict[str, int]:
    """The garbage that is there when something has been done several times, and all its connections are closed."""
    before = broker.open_files()
    garbage(broker)
    for _ in range(often):
        act()
    wait_until(lambda: broker.open_files() <= before, "all connections are closed")
    return garbage(broker)
