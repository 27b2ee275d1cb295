"""A broker that does after a few messages what others do after megabytes."""

import sys

RESERVE = 120_000
"""Bytes that are kept for what frees space."""


def small(checkpoint: int, compaction: int = 0) -> tuple[str, ...]:
    """The command. It copies its write-ahead log after so many bytes, and compacts its journal from so many on."""
    settings = [f"d.CHECKPOINT = {checkpoint}", f"r.SIZE = {RESERVE}"]
    if compaction:
        settings += [f"c.SMALL = {compaction}", "c.PAUSE = 0.02", f"c.BATCH = {RESERVE // 4}"]
    code = (
        "import broker.storage.compaction as c, broker.storage.database as d, broker.storage.reserve as r, runpy; "
        f"{'; '.join(settings)}; runpy.run_module('broker', run_name='__main__')"
    )
    return sys.executable, "-c", code
