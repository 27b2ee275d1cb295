"""Clients that end without DISCONNECT, one after another, and whose wills have to come."""

import random
import threading
import time
from collections import defaultdict
from contextlib import suppress
from typing import Final

from protocol.connect import Will
from tests.support.broker.cells import at_home
from tests.support.process import Address
from tests.support.wire import WireClient

EVERY: Final = 0.3
"""Seconds from one to the next."""
NEAR: Final = 1.0
"""Seconds: a will is not promised if its cell is killed so soon after its client has ended."""


class MortalClients:
    """One at a time, at a random cell; each has a will of its own."""

    def __init__(self, address: Address, cells: int, chance: random.Random) -> None:
        self.sent: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
        """By topic: the number of each will, when its client was connected, and when it was gone."""
        self._address = address
        self._cells = cells
        self._chance = chance
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(EVERY):
            cell = self._chance.randint(1, self._cells)
            client_id = next(at_home(cell, self._cells, f"mortal{number}-"))
            topic = f"will/{cell}"
            with suppress(OSError, AssertionError, TimeoutError), WireClient(self._address, 5, timeout=15) as client:
                answer = client.connect(client_id, will=Will(topic.encode(), b"%d " % number, 1))
                assert answer.reason_code == 0
                began = time.monotonic()
                client.close()
                self.sent[topic].append((number, began, time.monotonic()))
                number += 1

    def stop(self) -> None:
        """No more of them."""
        self._stopped.set()
        self._thread.join()

    def lost(self, came: dict[str, list[int]], kills: list[tuple[float, int]]) -> list[str]:
        """What is wrong: wills that have not come though their cell has lived long enough."""
        wrong = []
        for topic, wills in self.sent.items():
            cell = int(topic.partition("/")[2])
            killed = [at for at, victim in kills if victim == cell]
            sure = {number for number, began, gone in wills if not any(began <= at <= gone + NEAR for at in killed)}
            missing = sorted(sure - set(came[topic]))
            if missing:
                wrong.append(f"{topic}: {len(missing)} of {len(wills)} wills are lost, such as {missing[:5]}")
        return wrong
