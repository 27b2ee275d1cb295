"""`python -m spark_jobs`: the command line."""

import sys

from spark_jobs.cli import main

if __name__ == "__main__":
    sys.exit(main())
