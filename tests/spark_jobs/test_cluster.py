"""Compaction on a real cluster: a standalone master and a worker on loopback, from the pip package."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil
import pytest

from spark_jobs.bundle import write_bundle
from tests.support.spark.compacting import Run, tables
from tests.support.spark.metrics_files import row, write_metrics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROOT: Final = Path(__file__).parents[2]
QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java that compiles quickly what runs once."""


def free_port() -> int:
    """A free port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of Spark's scripts: this pyspark, and a suitable Java."""
    import pyspark

    from spark_jobs.java import find_java, make_java_home

    home = make_java_home(find_java(os.environ), tmp_path_factory.mktemp("java"))
    own = {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "JAVA_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.master.rest.enabled=false {QUICK}",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    return {**os.environ, **own}


@contextmanager
def daemon(environment: dict[str, str], log: Path, says: str, *arguments: str) -> Iterator[None]:
    """One of Spark's daemons, which runs until the block ends; waits for a line in its log."""
    script = f"{environment['SPARK_HOME']}/bin/spark-class"
    with log.open("wb") as out:
        process = subprocess.Popen([script, *arguments], env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        while says not in log.read_text():
            with pytest.raises(subprocess.TimeoutExpired):  # still running
                process.wait(0.2)
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def master(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with one worker."""
    folder = tmp_path_factory.mktemp("cluster")
    url = f"spark://127.0.0.1:{free_port()}"
    spot = ("--host", "127.0.0.1", "--webui-port", "0")
    main = ("org.apache.spark.deploy.master.Master", *spot, "--port", url.rpartition(":")[2])
    work = ("org.apache.spark.deploy.worker.Worker", *spot, "-c", "1", "-m", "2g", "-d", str(folder), url)
    with (
        daemon(environment, folder / "master.log", "New state: ALIVE", *main),
        daemon(environment, folder / "worker.log", "Successfully registered with master", *work),
    ):
        yield url


@pytest.fixture(scope="module")
def here(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `raw`, metrics of two hours, and `here`, the store that this machine makes of them."""
    folder = tmp_path_factory.mktemp("here")
    write_metrics(folder / "raw", [row(name, 60 * n, 60, offered_qos1=2) for name in "ab" for n in range(1, 70)])
    run(folder / "raw", folder / "here")
    return folder


def listening() -> set[str]:
    """The addresses at which processes below this one listen."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            listens = [each.laddr.ip for each in process.net_connections() if each.status == psutil.CONN_LISTEN]
            found |= {ip.removeprefix("::ffff:") for ip in listens}
    return found


def compacted(here: Path, environment: dict[str, str], place: Path, *command: str) -> None:
    """Assert that a command, started in a folder, makes the same store, and that nothing listens to other machines."""
    options = ["--metrics", str(here / "raw"), "--store", str(place / "store"), "--slot", "1m", "--quiet"]
    at: set[str] = set()
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, *options], env=environment, cwd=place, stdout=pipe, stderr=pipe) as process:
        while process.returncode is None:
            at |= listening()
            with suppress(subprocess.TimeoutExpired):
                out, err = process.communicate(timeout=1)
    assert process.returncode == 0, err.decode()
    assert b"2 hours built from 138 rows" in out
    assert at == {"127.0.0.1"}
    assert tables(place / "store") == tables(here / "here")


def test_spark_submit(here: Path, environment: dict[str, str], master: str, tmp_path: Path) -> None:
    """A cluster makes the same store by the packed jobs."""
    archive, main = write_bundle(str(tmp_path / "jobs"))
    quick = ["--driver-java-options", QUICK, "--conf", f"spark.executor.extraJavaOptions={QUICK}"]
    quick += ["--conf", "spark.sql.shuffle.partitions=1", "--driver-memory", "1g"]
    submit = [f"{environment['SPARK_HOME']}/bin/spark-submit", "--master", master, *quick, "--py-files", archive]
    compacted(here, environment, tmp_path, *submit, main, "compact")


@pytest.mark.slow
def test_master(here: Path, environment: dict[str, str], master: str, tmp_path: Path) -> None:
    """So does --master, which sends the sources."""
    own = {**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    compacted(here, own, tmp_path, sys.executable, "-m", "spark_jobs", "compact", "--master", master)
