"""Compaction on a real cluster: a standalone master and a worker on loopback, from the pip package."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.spark.compacting import tables
from tests.support.spark.metrics_files import row, write_metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

ROOT: Final = Path(__file__).parents[2]


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
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false",
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


def test_a_cluster_compacts_as_this_machine_does(
    spark: "SparkSession", environment: dict[str, str], master: str, tmp_path: Path
) -> None:
    """--master and spark-submit write the same rows as a local run."""
    from spark_jobs.bundle import write_bundle
    from spark_jobs.compaction.compact import Options, compact
    from spark_jobs.progress import Progress

    raw = tmp_path / "raw"
    write_metrics(raw, [row(name, 60 * n, 60, offered_qos1=2, sent_qos1=2) for name in "ab" for n in range(1, 70)])
    compact(Options(str(raw), str(tmp_path / "here"), 60_000_000), lambda _: spark, Progress(quiet=True))
    archive, main = write_bundle(str(tmp_path / "jobs"))
    submit = [f"{environment['SPARK_HOME']}/bin/spark-submit", "--master", master, "--driver-memory", "1g"]
    commands = {
        "master": [sys.executable, "-m", "spark_jobs", "compact", "--master", master],
        "submit": [*submit, "--py-files", archive, main, "compact"],
    }
    for name, command in commands.items():
        options = ["--metrics", str(raw), "--store", str(tmp_path / name), "--quiet"]
        place = ROOT if name == "master" else tmp_path  # spark-submit must import the package from the archive
        done = subprocess.run(
            [*command, *options], env=environment, cwd=place, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "2 hours built from 138 rows" in done.stdout
        assert tables(tmp_path / name) == tables(tmp_path / "here")
