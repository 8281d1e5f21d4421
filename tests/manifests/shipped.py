"""The manifests as an operator applies them, and their webhooks registered where a test can answer them."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from controlplane.client import ApiError
from controlplane.plane import ControlPlane
from controlplane.server import wait_for

Object = dict[str, Any]

MANIFESTS = Path(__file__).parents[2] / "manifests"
COLLECTIONS: Mapping[str, str] = {
    kind: f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
NOBODY = "https://127.0.0.1:1"  # nothing listens at port 1


def build(plane: ControlPlane, folder: Path) -> list[Object]:
    """The objects that a kustomization makes."""
    return list(yaml.safe_load_all(plane.kubectl("kustomize", str(folder)).stdout))


def overlay(folder: Path, *components: str, **more: object) -> Path:
    """Writes a kustomization such as an operator's into the folder, and returns the folder."""
    manifests = Path(os.path.relpath(MANIFESTS.resolve(), folder.resolve()))
    content = {
        "resources": [str(manifests)],
        "components": [str(manifests / "components" / name) for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content | more))
    return folder


def shipped_webhooks(plane: ControlPlane, url: str, ca: bytes, *, folder: Path = MANIFESTS) -> list[Object]:
    """Both webhook configurations of a kustomization; the API server will call the URL, trusting the CA (PEM).

    Nothing else is changed. They are for ``registered``; one named ``poolwarden`` is all that the program publishes to.
    """
    configurations = [item for item in build(plane, folder) if item["kind"] in COLLECTIONS]
    for configuration in configurations:
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"{url}{path}", "caBundle": base64.b64encode(ca).decode()}
    return configurations


@contextmanager
def registered(plane: ControlPlane, configurations: Sequence[Object]) -> Iterator[None]:
    """Registers webhook configurations: the API server heeds all of them within the block, and none after it.

    Each gets one webhook more, for a ConfigMap whose name nobody else uses: it tells when the others count.
    """
    probes = {secrets.token_hex(8): configuration for configuration in configurations}
    made: list[str] = []
    try:
        for probe, configuration in probes.items():
            body = configuration | {"webhooks": [*configuration["webhooks"], _refusing(probe)]}
            collection = COLLECTIONS[configuration["kind"]]
            plane.request("POST", collection, body)
            made.append(f"{collection}/{configuration['metadata']['name']}")
        for probe in probes:
            wait_for("webhooks to be heeded", partial(_is_refused, plane, probe))
        yield
    finally:
        for path in made:
            plane.request("DELETE", path)
        for probe in probes:
            wait_for("webhooks to be forgotten", partial(_passes, plane, probe))


def unregister(plane: ControlPlane) -> None:
    """Removes the webhook configurations that the manifests have made; none is heeded afterwards."""
    for collection in COLLECTIONS.values():
        if plane.find(f"{collection}/poolwarden"):
            plane.request("DELETE", f"{collection}/poolwarden")
    guard = {
        "apiVersion": "poolwarden.dev/v1alpha1",
        "kind": "PoolGuard",
        "metadata": {"name": f"spiderpool.{secrets.token_hex(8)}"},
        "spec": {"poolRef": {"ipam": "spiderpool", "name": "any"}},
    }
    # Both configurations have a webhook for it that nobody answers.
    wait_for(
        "webhooks to be forgotten", lambda: _would_be_made(plane, "/apis/poolwarden.dev/v1alpha1/poolguards", guard)
    )


def _refusing(probe: str) -> Object:
    return {
        "name": "probe.poolwarden.test",
        "clientConfig": {"url": NOBODY},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
        "matchConditions": [{"name": "probe", "expression": f"object.metadata.name == '{probe}'"}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


def _passes(plane: ControlPlane, probe: str) -> bool:
    return _would_be_made(plane, "/api/v1/namespaces/default/configmaps", {"metadata": {"name": probe}})


def _is_refused(plane: ControlPlane, probe: str) -> bool:
    return not _passes(plane, probe)


def _would_be_made(plane: ControlPlane, collection: str, body: Object) -> bool:
    try:
        plane.request("POST", f"{collection}?dryRun=All", body)
    except ApiError as error:
        if "failed calling webhook" in str(error):
            return False
        raise
    return True
