"""Main file for spark-submit: `spark-submit [--py-files spark_jobs.zip] report.py [compact|report] OPTIONS`.

It accepts the commands of `python -m spark_jobs`; the default is `report`. The package is imported from the zip archive
of --py-files, or as installed, or else from the folder of this file.
"""

import sys
from importlib.util import find_spec
from pathlib import Path


def run(arguments: list[str]) -> int:
    """Find the package and run its command line; returns the exit code."""
    here = Path(__file__).resolve().parent
    # Python puts the script's folder first on the path, where our modules would shadow others of the same name.
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != here]
    if find_spec("spark_jobs") is None:
        sys.path.insert(0, str(here.parent))
    from spark_jobs.cli import main

    return main(arguments if arguments[:1] in (["report"], ["compact"]) else ["report", *arguments])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
