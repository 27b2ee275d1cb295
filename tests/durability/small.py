"""A broker with small limits, that does after a few messages what others do after megabytes."""

BATCHES = 60_000
"""Bytes of the reserve for compaction (FC-29)."""


def small(checkpoint: int, compaction: int = 0) -> str:
    """What a broker has to run before it starts, to copy its log and compact its journal from so many bytes on."""
    settings = [
        "import broker.storage.compaction as c, broker.storage.database as d, broker.storage.reserve as r",
        f"d.CHECKPOINT = {checkpoint}",
        f"r.BATCHES = {BATCHES}",
    ]
    if compaction:
        settings += [f"c.SMALL = {compaction}", "c.PAUSE = 0.02", f"c.BATCH = {BATCHES // 2}"]
    return "; ".join(settings)
