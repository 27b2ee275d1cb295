"""The wrapper of spark-submit, and its settings."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deploy.conftest import DEPLOY, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

SPARK = DEPLOY / "spark"
WRAPPER = SPARK / "sluice-spark"
PROPERTIES = sorted(SPARK.glob("*.properties"))


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    """A folder with packed jobs."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "spark_jobs.zip").touch()
    return str(folder)


def test_yarn(script: Run, jobs: str) -> None:
    """By default a job and its driver run on YARN, with the packed jobs, YARN's settings and the given options."""
    arguments = ("compact", "--metrics", "hdfs:///a b", "--store", "hdfs:///s")
    done = script(WRAPPER, *arguments, stand_ins={"spark-submit": 0}, SLUICE_JOBS=jobs)
    assert done.stdout.split() == [
        *("spark-submit", "--master", "yarn", "--deploy-mode", "cluster", "--name", "sluice-compact"),
        *("--properties-file", str(SPARK / "yarn.properties"), "--py-files", f"{jobs}/spark_jobs.zip"),
        *(f"{jobs}/sluice_report.py", "compact", "--metrics", "hdfs:///a", "b", "--store", "hdfs:///s"),
    ]


def test_other_clusters(script: Run, jobs: str) -> None:
    """Kubernetes and standalone clusters have their own settings; further arguments go to spark-submit."""
    variables = {"SLUICE_CLUSTER": "kubernetes", "SLUICE_MASTER": "k8s://https://h:1", "SLUICE_JOBS": jobs}
    further = {"SLUICE_SUBMIT_ARGS": "--conf spark.driver.host=10.0.0.1"}
    done = script(WRAPPER, "report", stand_ins={"spark-submit": 0}, **variables, **further)
    arguments = done.stdout.split()
    assert arguments[1:5] == ["--master", "k8s://https://h:1", "--deploy-mode", "client"]
    assert str(SPARK / "kubernetes.properties") in arguments
    assert arguments.index("spark.driver.host=10.0.0.1") < arguments.index(f"{jobs}/sluice_report.py")


def test_exit_code(script: Run, jobs: str) -> None:
    """The exit code is spark-submit's."""
    done = script(WRAPPER, "report", stand_ins={"spark-submit": 7}, SLUICE_JOBS=jobs)
    assert done.returncode == 7


def test_print(script: Run, jobs: str) -> None:
    """--print shows the command, quoted for a shell, without running it."""
    done = script(WRAPPER, "--print", "report", "--label", "a b", stand_ins={"spark-submit": 1}, SLUICE_JOBS=jobs)
    assert done.returncode == 0
    assert done.stdout.rstrip().endswith(r"sluice_report.py report --label a\ b")


@pytest.mark.parametrize(
    ("arguments", "variables", "told"),
    [
        (["measure"], {}, "must be compact or report"),
        (["report"], {"SLUICE_CLUSTER": "mesos"}, "must be yarn, kubernetes or standalone"),
        (["report"], {"SLUICE_CLUSTER": "standalone"}, "SLUICE_MASTER must name the master"),
        (["report"], {"SLUICE_JOBS": "/nowhere"}, "python -m spark_jobs bundle --out /nowhere"),
        (["report"], {"SLUICE_PROPERTIES": "/nowhere"}, "no such property file"),
    ],
)
def test_refused(script: Run, jobs: str, arguments: list[str], variables: dict[str, str], told: str) -> None:
    """Invalid arguments are refused before anything runs; the message says what was expected."""
    done = script(WRAPPER, *arguments, stand_ins={"spark-submit": 0}, **{"SLUICE_JOBS": jobs, **variables})
    assert done.returncode != 0
    assert done.stdout == ""
    assert told in done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_settings_are_known(spark: "SparkSession") -> None:
    """Spark reads the property files, and knows every setting in them."""
    java: Any = spark._jvm
    known = java.org.apache.spark.internal.config.ConfigEntry
    for name in (
        "org.apache.spark.deploy.k8s.Config",
        "org.apache.spark.deploy.yarn.config.package",
        "org.apache.spark.internal.config.package",
    ):
        java.java.lang.Class.forName(f"{name}$")  # loading the class registers its settings
    volumes = re.compile(r"spark\.kubernetes\.executor\.volumes\.")
    for path in PROPERTIES:
        found = java.org.apache.spark.util.Utils.getPropertiesFromFile(str(path))
        names = [pair._1() for pair in java.scala.jdk.javaapi.CollectionConverters.asJava(found.toSeq())]
        assert len(names) > 3
        unknown = [name for name in names if known.findEntry(name) is None and not volumes.match(name)]
        assert unknown == [], path
