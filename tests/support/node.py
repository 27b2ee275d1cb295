"""Node packages for tests and benches, fetched by npm once and kept in the cache."""

import fcntl
import shutil
import subprocess
from pathlib import Path

from tests.support.cache import cache_folder

NPM_SECONDS = 180


def install(package: str) -> Path:
    """Return the node_modules folder that holds `name@version`; what it is to be put in NODE_PATH.

    Who asks for a package while it is fetched waits for that: npm does not bear with another one in its folder. What it
    has not finished does not count.
    """
    folder = cache_folder("node", package.replace("/", "-"))
    finished, unfinished = folder / "finished", folder / "unfinished"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            shutil.rmtree(unfinished, ignore_errors=True)
            command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(unfinished), package]
            subprocess.run(command, check=True, timeout=NPM_SECONDS, stdout=subprocess.DEVNULL)
            unfinished.rename(finished)
    return finished / "node_modules"
