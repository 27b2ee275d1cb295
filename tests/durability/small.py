"""A broker that does after a few messages what others do after megabytes."""

import sys


def small(checkpoint: int, compaction: int = 0) -> tuple[str, ...]:
    """The command. It copies its write-ahead log after so many bytes, and compacts its journal from so many on."""
    settings = [f"d.CHECKPOINT = {checkpoint}"]
    if compaction:
        settings += [f"c.SMALL = {compaction}", "c.PAUSE = 0.02"]
    code = (
        "import broker.storage.compaction as c, broker.storage.database as d, runpy; "
        f"{'; '.join(settings)}; runpy.run_module('broker', run_name='__main__')"
    )
    return sys.executable, "-c", code
