"""What `forked.py` runs in the fork: `sluice` on a loop, in a folder, with an environment and a standard error."""

import os
import sys
from typing import Any


def run(given: dict[str, Any]) -> None:
    """Become `sluice ARGUMENTS`."""
    import broker
    from broker.cli.main import main

    assert list(broker.__path__) == given["code"], "the fork server has imported another Sluice than the tests"
    if given["loop"] == "asyncio":
        sys.modules["uvloop"] = None  # type: ignore[assignment]  # importing it then fails
    os.chdir(given["folder"])
    os.environ.clear()
    os.environ.update(given["environment"])
    os.dup2(given["stderr"].fileno(), 2)
    given["stderr"].close()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    exec(given["prepare"], {})  # the test's own
    sys.argv = ["sluice", *given["arguments"]]
    main()


run(globals()["given"])
