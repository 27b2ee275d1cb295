"""deploy/kubernetes: the broker's manifests."""

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

import config
from config.value_types import AUTO
from tests.deploy.conftest import DEPLOY
from tests.deploy.test_kubernetes import unknown_fields
from tests.support.certificates import make_certificates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

FOLDER: Final = DEPLOY / "kubernetes"

KUBECTL: Final = shutil.which("kubectl")


def documents() -> list[dict[str, Any]]:
    """The objects of all manifests that the kustomization names."""
    names = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    return [document for name in names for document in yaml.safe_load_all((FOLDER / name).read_text())]


def pod() -> Any:
    """What the broker's pod is to be."""
    (found,) = [each for each in documents() if each["kind"] == "StatefulSet"]
    return found["spec"]["template"]["spec"]


def test_ports_and_mounts_agree(tmp_path: Path) -> None:
    """Probes, services and policies name ports of the container, which are those of the configuration."""
    (container,) = pod()["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    text = (FOLDER / "sluice.yaml").read_text()
    server = make_certificates(tmp_path).server
    (tmp_path / "users").write_text("")
    text = text.replace("/etc/sluice/tls/tls.crt", str(server.certfile)).replace("/etc/sluice/users", str(tmp_path))
    text = text.replace("/etc/sluice/tls/tls.key", str(server.keyfile))
    file = tmp_path / "sluice.yaml"
    file.write_text(text)
    loaded = config.load(file, {}).config
    assert loaded.admin.listen is not None
    assert {loaded.listeners[0].port, int(loaded.admin.listen.rpartition(":")[2])} == set(ports.values())
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: probe["path"] for kind, probe in probes.items()} == {
        "startup": "/health",
        "liveness": "/health",
        "readiness": "/ready",
    }
    assert {(probe["port"], probe["scheme"]) for probe in probes.values()} == {("admin", "HTTPS")}
    named = {port["targetPort"] for each in documents() if each["kind"] == "Service" for port in each["spec"]["ports"]}
    (policy,) = [each for each in documents() if each["kind"] == "NetworkPolicy"]
    assert named == {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == set(ports)
    volumes = {each["name"] for each in pod()["volumes"]} | {"data"}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert not [mount for mount in container["volumeMounts"] if "subPath" in mount]  # it would never change
    (folder,) = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "config"]
    assert container["args"] == ["run", "--config", f"{folder}/sluice.yaml"]
    assert container["resources"]["limits"]["memory"] == "2Gi"  # which the watermark follows
    assert loaded.memory_watermark == AUTO


def test_the_pod_is_careful() -> None:
    """It does not run as root, writes only to its volumes, and has no rights in the cluster."""
    (container,) = pod()["containers"]
    assert pod()["automountServiceAccountToken"] is False
    assert (pod()["securityContext"]["runAsNonRoot"], pod()["securityContext"]["runAsUser"]) == (True, 1883)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.slow
@pytest.mark.spark
def test_fields_are_known(spark: "SparkSession") -> None:
    """Kubernetes' API has every field of every manifest: parsed by the client in Spark."""
    java: Any = spark._jvm
    read = java.io.fabric8.kubernetes.client.utils.KubernetesSerialization().unmarshal
    for document in documents():
        thing = read(yaml.safe_dump(document))
        assert thing.getKind() == document["kind"]
        assert unknown_fields(thing, document["kind"]) == []


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_kustomization_builds() -> None:
    """kubectl builds the manifests: everything selects the broker's pods, and the pod has the configuration."""
    built = subprocess.run([str(KUBECTL), "kustomize", str(FOLDER)], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    objects = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(built.stdout)}
    ours = {"app.kubernetes.io/name": "sluice"}
    stateful = objects["StatefulSet", "sluice"]["spec"]
    assert stateful["selector"]["matchLabels"] == stateful["template"]["metadata"]["labels"] == ours
    assert objects["Service", "sluice"]["spec"]["selector"] == ours
    assert objects["Service", "sluice-admin"]["spec"]["selector"] == ours
    assert objects["NetworkPolicy", "sluice"]["spec"]["podSelector"]["matchLabels"] == ours
    (name,) = [name for kind, name in objects if kind == "ConfigMap"]
    volumes = {each["name"]: each for each in stateful["template"]["spec"]["volumes"]}
    assert volumes["config"]["configMap"]["name"] == name
