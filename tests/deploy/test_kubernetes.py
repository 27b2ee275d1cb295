"""The Kubernetes manifests."""

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.deploy.conftest import DEPLOY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

FOLDER = DEPLOY / "spark" / "kubernetes"
KUSTOMIZATION = "kustomization.yaml"
NAMESPACE = "sluice"
GETTERS: dict[str, list[str]] = {}
"""Of each Java class that has been met: to ask for them takes five calls from Python to Java for each method."""


def documents() -> list[dict[str, Any]]:
    """All objects of all manifests that the kustomization names."""
    names = yaml.safe_load((FOLDER / KUSTOMIZATION).read_text())["resources"]
    return [document for name in names for document in yaml.safe_load_all((FOLDER / name).read_text())]


def of_kind(kind: str) -> list[dict[str, Any]]:
    """The objects of one kind."""
    return [document for document in documents() if document["kind"] == kind]


def settings() -> dict[str, str]:
    """The settings of kubernetes.properties."""
    lines = (DEPLOY / "spark" / "kubernetes.properties").read_text().splitlines()
    pairs = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    return {name: value.strip() for name, value in pairs}


def unknown_fields(thing: Any, path: str) -> list[str]:
    """Unknown fields of a Java object of the Kubernetes API, with their paths."""
    from py4j.java_collections import JavaList, JavaMap
    from py4j.java_gateway import JavaObject

    if isinstance(thing, JavaList):
        return [name for number, each in enumerate(thing) for name in unknown_fields(each, f"{path}[{number}]")]
    if isinstance(thing, JavaMap) or not isinstance(thing, JavaObject):
        return []
    java = thing.getClass()
    name = java.getName()
    if not name.startswith("io.fabric8.kubernetes.api.model"):
        return []
    if name not in GETTERS:
        GETTERS[name] = [
            method.getName()
            for method in java.getMethods()
            if method.getName().startswith("get")
            and not method.getParameterCount()
            and method.getReturnType().getName() != "void"
        ]
    found = []
    for getter in GETTERS[name]:
        if getter == "getAdditionalProperties":
            found += [f"{path}.{key}" for key in thing.getAdditionalProperties()]
        elif getter not in {"getClass", "getFullResourceName", "getPlural", "getSingular"}:
            found += unknown_fields(getattr(thing, getter)(), f"{path}.{getter[3:]}")
    return found


@pytest.mark.slow
@pytest.mark.spark
def test_fields_are_known(spark: "SparkSession") -> None:
    """Kubernetes' API has every field of every manifest: parsed by the client in Spark."""
    java: Any = spark._jvm
    read = java.io.fabric8.kubernetes.client.utils.KubernetesSerialization().unmarshal
    executor = yaml.safe_load((DEPLOY / "spark" / "executor-pod.yaml").read_text())
    for document in [*documents(), executor]:
        thing = read(yaml.safe_dump(document))
        assert thing.getKind() == document["kind"]
        assert unknown_fields(thing, document["kind"]) == []
    wrong = of_kind("CronJob")[0]
    wrong["spec"]["jobTemplate"]["spec"]["backofLimit"] = 1
    assert len(unknown_fields(read(yaml.safe_dump(wrong)), "")) == 1


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomization_builds() -> None:
    """kubectl builds the manifests, with the image's real name in both CronJobs."""
    built = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    objects = list(yaml.safe_load_all(built.stdout))
    assert len(objects) == len(documents())
    images = {
        each["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in objects
        if each["kind"] == "CronJob"
    }
    assert images == {settings()["spark.kubernetes.container.image"]}


def test_names_agree() -> None:
    """All names that manifests and settings refer to exist."""
    (account,), (role,), (config,), (claim,) = (
        of_kind(kind) for kind in ("ServiceAccount", "Role", "ConfigMap", "PersistentVolumeClaim")
    )
    (binding,) = of_kind("RoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == [account["metadata"]["name"]]
    assert settings()["spark.kubernetes.namespace"] == NAMESPACE
    volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.sluice"
    assert settings()[f"{volume}.options.claimName"] == claim["metadata"]["name"]
    for job in of_kind("CronJob"):
        pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["serviceAccountName"] == account["metadata"]["name"]
        assert container["envFrom"] == [{"configMapRef": {"name": config["metadata"]["name"]}}]
        claims = {each["name"]: each["persistentVolumeClaim"] for each in pod["volumes"] if "emptyDir" not in each}
        assert claims == {"data": {"claimName": claim["metadata"]["name"]}}
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        assert mounts["data"] == settings()[f"{volume}.mount.path"]
    others = [document for document in documents() if document["kind"] != "Namespace"]
    assert {document["metadata"]["namespace"] for document in others} == {NAMESPACE}


def test_jobs_are_careful() -> None:
    """Runs of a CronJob do not overlap, failed ones are retried, and none runs as root or without a time limit."""
    for job in of_kind("CronJob"):
        spec = job["spec"]["jobTemplate"]["spec"]
        pod = spec["template"]["spec"]
        assert job["spec"]["concurrencyPolicy"] == "Forbid"
        assert job["spec"]["timeZone"] == "Etc/UTC"
        assert spec["backoffLimit"] > 0 < spec["activeDeadlineSeconds"]
        assert pod["restartPolicy"] == "Never"
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


def test_commands() -> None:
    """The scripts in the CronJobs are valid, and call the wrapper with values of the settings."""
    config = of_kind("ConfigMap")[0]["data"]
    for job in of_kind("CronJob"):
        (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        (text,) = container["args"]
        shown = text.replace("/opt/sluice/sluice-spark", "echo")
        done = subprocess.run(
            [*container["command"], shown], capture_output=True, text=True, check=False, env={"PATH": "/bin", **config}
        )
        assert (done.returncode, done.stderr) == (0, "")
        job_name, *options = done.stdout.split()
        assert job["metadata"]["name"] == f"sluice-{job_name}"
        given = dict(zip(options[::2], options[1::2], strict=True))
        assert given["--store"] == config["STORE"]
        if job_name == "report":
            assert given["--from"] < given["--to"] > given["--baseline"]
            assert given["--out"] == f"{config['REPORTS']}/{given['--from']}"
