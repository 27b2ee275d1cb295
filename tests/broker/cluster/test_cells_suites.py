"""The suites that know nothing of cells pass with four workers: a part of each; `make` runs all with `--workers 4`."""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.once, pytest.mark.timeout(300)]

SUITES = {
    "conformance": ("tests.conformance", "-k", "test_retained.py or test_unsubscribe.py or test_overlapping.py"),
    "matrix": ("tests.clients", "--clients", "paho", "--cases", "exchange-v5,retained-v5,will-v5,kept-v5"),
    "rules": ("tests.rules", "--sets", "5", "--seed", "3"),
    "logins": ("tests.clients.logins", "--cells", "paho-v5-tls-direct,paho-v5-ws-haproxy-v1"),
}


@pytest.mark.parametrize("suite", SUITES)
def test_four_workers(suite: str) -> None:
    """What clients of all kinds see behind the shared port is what they see of one process."""
    # Not the one of a worker of pytest-xdist: conformance is a run of pytest itself.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", *SUITES[suite], "--workers", "4"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
