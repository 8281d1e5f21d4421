"""How certificates are kept in a cluster: Secrets and caBundles to `State`, and each step as one conditional write."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

from cryptography.x509 import Certificate
from msgspec import Struct, field

from poolwarden.certs.decide import (
    AdoptCas,
    CreateCa,
    DropOldCa,
    IntroduceCa,
    IssueLeaf,
    NoteReplaced,
    NoteSeen,
    PublishBundle,
    Step,
)
from poolwarden.certs.issue import (
    Pair,
    Unusable,
    certificate_pem,
    key_pem,
    new_ca,
    new_leaf,
    read_certificates,
    read_pair,
)
from poolwarden.certs.kinds import MUTATING, SECRETS, VALIDATING
from poolwarden.certs.settings import Settings
from poolwarden.certs.state import (
    NEVER,
    Authority,
    Configuration,
    Missing,
    Seen,
    Serving,
    State,
    Uninstalled,
    Unknown,
)
from poolwarden.cluster.clock import format_micro_time, parse_time
from poolwarden.cluster.interface import Absent, Cluster, Found, PatchType, Unread, WriteOutcome
from poolwarden.cluster.kinds import OwnKind

CERTIFICATE, KEY = "tls.crt", "tls.key"
BUNDLE = "ca.crt"
PREVIOUS_CERTIFICATE, PREVIOUS_KEY = "previous.crt", "previous.key"
OLD = "old.crt"
SEEN, SEEN_AT = "poolwarden.dev/bundle-seen", "poolwarden.dev/bundle-seen-at"
REPLACED, REPLACED_AT = "poolwarden.dev/leaf-replaced", "poolwarden.dev/leaf-replaced-at"
DROPPED = "poolwarden.dev/dropped-from"
LABELS = {"app.kubernetes.io/name": "poolwarden", "app.kubernetes.io/managed-by": "poolwarden"}

T = TypeVar("T")
Data = Mapping[str, bytes]  # base64 in JSON, as msgspec reads and writes bytes


class _Metadata(Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str
    generation: int = 0
    annotations: dict[str, str] | None = None


class _Secret(Struct, frozen=True):
    metadata: _Metadata
    data: dict[str, bytes] | None = None


class _ClientConfig(Struct, frozen=True, rename="camel"):
    ca_bundle: bytes | None = None


class _Webhook(Struct, frozen=True):
    name: str
    client_config: _ClientConfig = field(name="clientConfig")


class _Configuration(Struct, frozen=True):
    metadata: _Metadata
    webhooks: tuple[_Webhook, ...] | None = None


# --- reading ----------------------------------------------------------------------------------------------------------


def read_state(cluster: Cluster, settings: Settings) -> State:
    """All that is stored, in the order that `State` asks for."""
    configurations = (
        _configuration(cluster, MUTATING, settings.mutating),
        _configuration(cluster, VALIDATING, settings.validating),
    )
    serving = _secret(cluster, settings.namespace, settings.tls_secret, _serving)
    return State(_secret(cluster, settings.namespace, settings.ca_secret, _authority), serving, configurations)


def _secret(cluster: Cluster, namespace: str, name: str, parse: Callable[[_Secret], T]) -> T | Missing | Unknown:
    match cluster.get(SECRETS, _Secret, name=name, namespace=namespace):
        case Found(item=secret):
            return parse(secret)
        case Absent():
            return Missing()
        case Unread(message=message):
            return Unknown(message)


def _authority(secret: _Secret) -> Authority:
    data = secret.data or {}
    previous = _pair(data, PREVIOUS_CERTIFICATE, PREVIOUS_KEY)
    # Of a previous or newest CA that cannot sign, the certificate is still good for what it has signed.
    lost = () if isinstance(previous, Pair) else read_certificates(data.get(PREVIOUS_CERTIFICATE, b""))
    newest = _pair(data, CERTIFICATE, KEY)
    annotations = secret.metadata.annotations or {}
    if isinstance(newest, Unusable):
        lost += read_certificates(data.get(CERTIFICATE, b""))
    return Authority(
        version=secret.metadata.resource_version,
        newest=newest,
        previous=(previous,) if isinstance(previous, Pair) else (),
        old=(*lost, *read_certificates(data.get(OLD, b""))),
        seen=_since(annotations, SEEN, SEEN_AT),
        replaced=_since(annotations, REPLACED, REPLACED_AT),
        dropped=frozenset(annotations.get(DROPPED, "").split()),
    )


def _serving(secret: _Secret) -> Serving:
    data = secret.data or {}
    leaf = _pair(data, CERTIFICATE, KEY)
    return Serving(secret.metadata.resource_version, leaf, read_certificates(data.get(BUNDLE, b"")))


def _pair(data: Data, certificate: str, key: str) -> Pair | Unusable:
    return read_pair(data.get(certificate, b""), data.get(key, b""))


def _since(annotations: Mapping[str, str], digest: str, at: str) -> Seen:
    try:
        return Seen(annotations.get(digest, ""), parse_time(annotations.get(at, "")))
    except ValueError:
        return NEVER


def _configuration(cluster: Cluster, kind: OwnKind, name: str) -> Configuration | Uninstalled | Unknown:
    match cluster.get(kind, _Configuration, name=name):
        case Found(item=found):
            bundles = {one.name: read_certificates(one.client_config.ca_bundle or b"") for one in found.webhooks or ()}
            about = found.metadata
            return Configuration(kind.kind, name, about.uid, about.resource_version, about.generation, bundles)
        case Absent():
            return Uninstalled(kind.kind, name)
        case Unread(message=message):
            return Unknown(message)


# --- writing ----------------------------------------------------------------------------------------------------------


def perform(cluster: Cluster, settings: Settings, state: State, step: Step, now: datetime) -> WriteOutcome:
    """Make the one write of a step, for the versions in `state` and no others."""
    match step:
        case CreateCa() | IntroduceCa():
            data = _authority_data(new_ca(now, settings.ca_life), step.previous, step.old)
            return _write_secret(
                cluster, settings, settings.ca_secret, state.authority, data, {SEEN: None, SEEN_AT: None}
            )
        case DropOldCa():
            data = {PREVIOUS_CERTIFICATE: None, PREVIOUS_KEY: None, OLD: None}
            marks = {DROPPED: " ".join(sorted(state.marks))}
            return _write_secret(cluster, settings, settings.ca_secret, state.authority, data, marks)
        case AdoptCas(old=old):
            data = {OLD: certificate_pem(*old)}
            return _write_secret(cluster, settings, settings.ca_secret, state.authority, data)
        case NoteSeen(digest=digest):
            annotations = {SEEN: digest, SEEN_AT: format_micro_time(now)}
            return _write_secret(cluster, settings, settings.ca_secret, state.authority, {}, annotations)
        case NoteReplaced(digest=digest):
            annotations = {REPLACED: digest, REPLACED_AT: format_micro_time(now)}
            return _write_secret(cluster, settings, settings.ca_secret, state.authority, {}, annotations)
        case IssueLeaf(signer=signer, bundle=bundle):
            data = _pair_data(new_leaf(signer, settings.names, now, settings.leaf_life), CERTIFICATE, KEY)
            data[BUNDLE] = certificate_pem(*bundle)
            return _write_secret(cluster, settings, settings.tls_secret, state.serving, data)
        case PublishBundle(where=where, bundle=bundle):
            pem = certificate_pem(*bundle)
            if isinstance(where, Serving):
                return _write_secret(cluster, settings, settings.tls_secret, where, {BUNDLE: pem})
            return _apply_bundle(cluster, where, pem)


def _authority_data(newest: Pair, previous: tuple[Pair, ...], old: tuple[Certificate, ...]) -> dict[str, bytes | None]:
    data: dict[str, bytes | None] = {PREVIOUS_CERTIFICATE: None, PREVIOUS_KEY: None}
    for pair in previous:
        data |= _pair_data(pair, PREVIOUS_CERTIFICATE, PREVIOUS_KEY)
    return data | _pair_data(newest, CERTIFICATE, KEY) | {OLD: certificate_pem(*old) or None}


def _pair_data(pair: Pair, certificate: str, key: str) -> dict[str, bytes | None]:
    return {certificate: certificate_pem(pair.certificate), key: key_pem(pair.key)}


def _write_secret(
    cluster: Cluster,
    settings: Settings,
    name: str,
    before: Authority | Serving | Missing | Unknown,
    data: Mapping[str, bytes | None],
    annotations: Mapping[str, str | None] | None = None,
) -> WriteOutcome:
    """Create the Secret, or change these entries of the very version that was read."""
    if isinstance(before, Authority | Serving):
        metadata = {"resourceVersion": before.version, "annotations": annotations or {}}
        change = {"metadata": metadata, "data": data}
        return cluster.patch(SECRETS, change, name=name, namespace=settings.namespace)
    body = {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {"name": name, "namespace": settings.namespace, "labels": LABELS},
        "type": "kubernetes.io/tls",
        "data": {key: value for key, value in data.items() if value is not None},
    }
    return cluster.create(SECRETS, body, namespace=settings.namespace)


def _apply_bundle(cluster: Cluster, configuration: Configuration, bundle: bytes) -> WriteOutcome:
    """Apply the caBundles and nothing else, so that whoever applied the configuration keeps the rest of it.

    The uid keeps an apply from making a configuration anew that was deleted since, the version from undoing what was
    published since.
    """
    kind = MUTATING if configuration.kind == MUTATING.kind else VALIDATING
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": configuration.name,
            "uid": configuration.uid,
            "resourceVersion": configuration.version,
        },
        "webhooks": [{"name": name, "clientConfig": {"caBundle": bundle}} for name in configuration.bundles],
    }
    return cluster.patch(kind, body, name=configuration.name, type=PatchType.APPLY)
