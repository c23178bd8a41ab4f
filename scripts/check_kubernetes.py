#!/usr/bin/env python3
"""Checks packaging/kubernetes: against the schemas of Kubernetes, and against the binary.

    scripts/check_kubernetes.py BINARY
"""

import re
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import yaml

FOLDER = Path(__file__).resolve().parents[1] / "packaging/kubernetes"
# The oldest and the newest version of Kubernetes.
VERSIONS = ("1.30", "1.37")
# Kinds of extensions, which Kubernetes itself does not know.
EXTENSIONS = ("Kustomization", "PodMonitor")
# Variables that are no flag of the service: docs/dependencies.md, Document stores.
CREDENTIALS = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


def variables(file: str) -> dict[str, str]:
    lines = (FOLDER / file).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def main(binary: str) -> None:
    manifests = {path.name: yaml.safe_load(path.read_text()) for path in FOLDER.glob("*.yaml")}
    for name, manifest in manifests.items():
        if manifest["kind"] not in EXTENSIONS:
            for version in VERSIONS:
                kubernetes_validate.validate(manifest, version, strict=True)
                print(f"{name}: valid in {version}")

    kustomization = manifests["kustomization.yaml"]
    text = (FOLDER / "kustomization.yaml").read_text()
    assert set(kustomization["resources"]) < set(manifests), kustomization["resources"]
    unused = [name for name in manifests if name != "kustomization.yaml" and name not in text]
    assert not unused, f"kustomization.yaml does not name {unused}"

    settings, secrets = variables("settings.env"), variables("secret.example.env")
    known = set(re.findall(r"\[env: (\w+)", subprocess.check_output([binary, "--help"], text=True)))
    unknown = (set(settings) | set(secrets)) - known - CREDENTIALS
    assert not unknown, f"the service has no settings {unknown}"
    # `--help` parses the settings first, and a wrong one is an error of `openapi`.
    subprocess.run([binary, "openapi"], env=settings, check=True, stdout=subprocess.DEVNULL)

    pod = manifests["deployment.yaml"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for name, setting in (("api", "NOTARY_ORDERS_LISTEN"), ("ops", "NOTARY_ORDERS_OPS_LISTEN")):
        assert settings[setting] == f"0.0.0.0:{ports[name]}", (name, ports)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "ops", probe
    stop = int(settings["NOTARY_ORDERS_DRAIN_SECS"]) + int(settings["NOTARY_ORDERS_SHUTDOWN_GRACE_SECS"])
    assert pod["terminationGracePeriodSeconds"] > stop, "Kubernetes would kill a stopping instance"
    [mount], [volume] = container["volumeMounts"], pod["volumes"]
    assert settings["NOTARY_ORDERS_DATA_DIR"].startswith(mount["mountPath"] + "/")
    size = int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi")) * 1024
    assert int(settings["NOTARY_ORDERS_SPOOL_MB"]) < size, "the spool does not fit into its volume"
    labels = manifests["deployment.yaml"]["spec"]["selector"]["matchLabels"]
    selectors = [manifests["service.yaml"]["spec"]["selector"],
                 manifests["network-policy.yaml"]["spec"]["podSelector"]["matchLabels"],
                 *(manifests[name]["spec"]["selector"]["matchLabels"]
                   for name in ("disruption-budget.yaml", "pod-monitor.yaml"))]
    assert all(selector == labels for selector in selectors), selectors
    guard = (FOLDER.parents[1] / "crates/adapter-webhook/src/guard.rs").read_text()
    first_free = int(re.search(r"FIRST_FREE_PORT: u16 = (\d+);", guard)[1])
    webhooks = [{"port": 443}, {"port": first_free, "endPort": 65535}]
    egress = manifests["network-policy.yaml"]["spec"]["egress"]
    assert any(rule["ports"] == webhooks for rule in egress), "webhooks do not leave to their ports"


if __name__ == "__main__":
    main(sys.argv[1])
