"""Retained messages: what they take in memory."""

import gc
import tracemalloc
from pathlib import Path

import pytest

from protocol.publish import Publish
from tests.support.broker.stored import broker_on, connected, say

COUNT = 20
SIZE = 100_000


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_payload_is_kept_once(tmp_path: Path, qos: int) -> None:
    """What an MQTT 5 client has published is in memory once, also with a journal: no frames of it are kept."""
    with broker_on(tmp_path) as (local, storage):
        publisher = connected(local, storage, "publisher")
        tracemalloc.start()
        try:
            for number in range(COUNT):
                say(local, storage, publisher, Publish(b"r/%d" % number, bytes(SIZE), qos, True, packet_id=number + 1))
            gc.collect()
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(local.broker.retained) == COUNT
        assert COUNT * SIZE <= taken < 1.5 * COUNT * SIZE
