"""A broker with small limits, that does after a few messages what others do after megabytes."""


def small(segment: int, compaction: int = 0) -> str:
    """What a broker has to run before it starts, to have segments of so many bytes, and compact from so many on."""
    settings = ["import broker.storage.compaction as c, broker.storage.spares as s", f"s.SEGMENT = {segment}"]
    if compaction:
        settings += [f"c.SMALL = {compaction}", "c.PAUSE = 0.02", f"c.BATCH = {segment // 16}"]
    return "; ".join(settings)
