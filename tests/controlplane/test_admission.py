"""The programs of the benchmark of webhooks: they do what their figures are taken for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest
import urllib3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from controlplane.admission import Tls, create_pods, noop_webhook, post_reviews
from controlplane.client import NAMESPACES
from controlplane.plane import ControlPlane
from controlplane.server import free_ports

PATCH = [{"op": "add", "path": "/metadata/labels", "value": {}}]
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "first", "object": {"kind": "Pod", "metadata": {"name": "web-0", "uid": "of-the-pod"}}},
}


def write_certificate(folder: Path, name: str) -> Tls:
    """Makes a certificate of its own CA, for the loopback address."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    tls = Tls(folder / f"{name}.crt", folder / f"{name}.key", folder / f"{name}.crt")
    tls.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    tls.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return tls


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """A certificate for the loopback address."""
    return write_certificate(tmp_path_factory.mktemp("tls"), "webhook")


@pytest.fixture
def review(tmp_path: Path) -> Path:
    """A file with an AdmissionReview."""
    path = tmp_path / "review.json"
    path.write_text(json.dumps(REVIEW))
    return path


def test_webhook_allows_and_patches(control_plane_programs: Mapping[str, Path], tls: Tls, tmp_path: Path) -> None:
    """Every review is allowed under its own uid; the patch is in the answers of mutating paths alone."""
    patch = "W3sib3AiOiAiYWRkIiwgInBhdGgiOiAiL21ldGFkYXRhL2xhYmVscyIsICJ2YWx1ZSI6IHt9fV0="
    with (
        noop_webhook(control_plane_programs["noop-webhook"], tmp_path, tls, PATCH) as (url, _),
        urllib3.PoolManager(ca_certs=str(tls.authority)) as client,
    ):
        mutated = client.request("POST", f"{url}/mutate-pods", json=REVIEW).json()
        validated = client.request("POST", f"{url}/validate-pods", json=REVIEW).json()
        refused = client.request("POST", f"{url}/validate-pods", json={"kind": "AdmissionReview"})

    answer = {"uid": "first", "allowed": True}
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    assert mutated == {**envelope, "response": {**answer, "patch": patch, "patchType": "JSONPatch"}}
    assert validated == {**envelope, "response": answer}
    assert refused.status == 400


def test_load_is_counted(control_plane_programs: Mapping[str, Path], tls: Tls, review: Path, tmp_path: Path) -> None:
    """Each request is answered under its own uid, and the figures agree with one another."""
    with noop_webhook(control_plane_programs["noop-webhook"], tmp_path, tls) as (url, _):
        load = post_reviews(
            control_plane_programs["review-load"], f"{url}/x", tls.authority, review, connections=4, seconds=0.3
        )

    assert load.errors == {}
    assert load.requests == load.allowed > 4
    assert load.denied == 0
    assert 0 < load.p50 <= load.p90 <= load.p99 <= load.max < 300
    assert load.per_second == pytest.approx(load.allowed / 0.3, rel=0.3)


def test_errors_are_counted_by_kind(
    control_plane_programs: Mapping[str, Path], tls: Tls, review: Path, tmp_path: Path
) -> None:
    """Where nobody listens, or one whom the CA does not know, nothing is answered, and the errors say why."""
    (port,) = free_ports(1)
    program = control_plane_programs["review-load"]
    nobody = post_reviews(program, f"https://127.0.0.1:{port}", tls.authority, review, connections=2, seconds=0.1)
    stranger = write_certificate(tmp_path, "stranger")
    with noop_webhook(control_plane_programs["noop-webhook"], tmp_path, stranger) as (url, _):
        unknown = post_reviews(program, url, tls.authority, review, connections=2, seconds=0.1)

    assert nobody.errors == {"connection refused": nobody.requests}
    assert unknown.errors == {"certificate": unknown.requests}
    assert nobody.requests
    assert unknown.requests
    assert nobody.per_second == unknown.per_second == 0


def test_pods_are_created(
    control_plane_programs: Mapping[str, Path], control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """Each request makes a pod of its own; where the namespace is not, the errors say so."""
    pod = tmp_path / "pod.json"
    pod.write_text(
        json.dumps({"metadata": {"generateName": "web-"}, "spec": {"containers": [{"name": "web", "image": "web"}]}})
    )
    create = partial(create_pods, control_plane_programs["pod-load"], control_plane.kubeconfig(), pod=pod)
    rate, errors = create(namespace=namespace, connections=2, seconds=0.2)
    nowhere, missing = create(namespace="nowhere", connections=2, seconds=0.1)

    made = len(control_plane.request("GET", f"{NAMESPACES}/{namespace}/pods")["items"])
    assert made > 2
    assert errors == {}
    assert 0 < rate <= made / 0.2
    assert nowhere == 0
    assert set(missing) == {"status 404"}
