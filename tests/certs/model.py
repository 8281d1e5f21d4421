"""A cluster in memory, as far as certificates need one, and what API servers and pods may make of its history."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar

import msgspec
from cryptography.x509 import AuthorityKeyIdentifier, Certificate
from msgspec import Struct

from certs.shape import verifies
from poolwarden.certs.issue import Pair, is_signed_by, read_certificates, read_pair
from poolwarden.certs.kinds import MUTATING, VALIDATING
from poolwarden.certs.settings import Settings
from poolwarden.cluster.interface import (
    Absent,
    Doubt,
    Failed,
    Found,
    Outdated,
    PatchType,
    Resource,
    Unread,
    WriteOutcome,
    Written,
)
from poolwarden.cluster.patches import merge_patch

T = TypeVar("T")
Object = dict[str, Any]
Key = tuple[str, str]

MOUNTED = timedelta(seconds=90)
"""How long pods may serve what the Secret held before."""


class Stored(Struct, frozen=True):
    """A version of an object, in force from `at` on; `ours`: what we wrote, not somebody else."""

    at: datetime
    value: Object
    ours: bool


class Model:
    """A `Cluster` with the API server's rules for versions, creation, merge patches, and the apply of caBundles."""

    def __init__(self, now: datetime) -> None:
        self.time = now
        self.objects: dict[Key, Object] = {}
        self.history: dict[Key, list[Stored]] = {}
        self.forbidden: set[tuple[str, str]] = set()
        self.backup: dict[str, Object] = {}
        self._version = 0

    # --- Cluster ------------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The time."""
        return self.time

    def list(self, *_: object, **__: object) -> NoReturn:
        """Nothing is listed."""
        raise AssertionError

    def get(self, resource: Resource, item: type[T], *, name: str, namespace: str = "") -> Found[T] | Absent | Unread:
        """See `Cluster`."""
        del namespace
        if ("get", resource.kind) in self.forbidden:
            return Unread(Doubt.FORBIDDEN, f"cannot get {resource.plural}: 403")
        found = self.objects.get((resource.kind, name))
        if found is None:
            return Absent()
        raw = msgspec.json.encode(found)
        return Found(msgspec.json.decode(raw, type=item), raw)

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "") -> WriteOutcome:
        """See `Cluster`."""
        del namespace
        key = (resource.kind, body["metadata"]["name"])
        if ("create", resource.kind) in self.forbidden:
            return Failed(Doubt.FORBIDDEN, f"cannot create {resource.plural}: 403")
        if key in self.objects:
            return Outdated("already exists")
        self._put(key, msgspec.json.decode(msgspec.json.encode(body)), ours=True)
        return Written(b"")

    def patch(
        self,
        resource: Resource,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        name: str,
        namespace: str = "",
        subresource: str = "",
        type: PatchType = PatchType.MERGE,  # noqa: A002 - the API's own word
    ) -> WriteOutcome:
        """See `Cluster`."""
        del namespace, subresource
        key = (resource.kind, name)
        if ("patch", resource.kind) in self.forbidden:
            return Failed(Doubt.FORBIDDEN, f"cannot patch {resource.plural}: 403")
        if key not in self.objects:
            return Absent()
        current = self.objects[key]
        change = msgspec.json.decode(msgspec.json.encode(body))
        if change["metadata"].pop("resourceVersion") != current["metadata"]["resourceVersion"]:
            return Outdated("the object has been modified")
        value = merge_patch(current, change) if type is PatchType.MERGE else _applied(current, change)
        if value is None:
            return Failed(Doubt.REJECTED, "webhooks[9].sideEffects: Required value")
        self._put(key, value, ours=True)
        return Written(b"")

    def delete(self, *_: object, **__: object) -> NoReturn:
        """Nothing is deleted."""
        raise AssertionError

    # --- what others do -----------------------------------------------------------------------------------------------

    def install(self, settings: Settings, *webhooks: str) -> None:
        """Both configurations, as `kubectl apply` makes them."""
        for kind, name in ((MUTATING, settings.mutating), (VALIDATING, settings.validating)):
            hooks = [{"name": webhook, "clientConfig": {}} for webhook in webhooks]
            self._put((kind.kind, name), {"metadata": {"name": name}, "webhooks": hooks})

    def reset(self, kind: str, name: str, pem: bytes = b"") -> None:
        """Somebody sets every caBundle of a configuration."""
        value = msgspec.json.decode(msgspec.json.encode(self.objects[kind, name]))
        for hook in value["webhooks"]:
            hook["clientConfig"] = msgspec.json.decode(msgspec.json.encode({"caBundle": pem}))
        self._put((kind, name), value)

    def edit_secret(self, name: str, **data: bytes) -> None:
        """Somebody sets entries of a Secret; underscores stand for dots."""
        value = msgspec.json.decode(msgspec.json.encode(self.objects["Secret", name]))
        value["data"] |= msgspec.json.decode(msgspec.json.encode({key.replace("_", "."): data[key] for key in data}))
        self._put(("Secret", name), value)

    def back_up(self) -> None:
        """Somebody keeps a copy of all Secrets."""
        self.backup = {name: value for (kind, name), value in self.objects.items() if kind == "Secret"}

    def restore(self, *names: str) -> None:
        """Somebody puts Secrets back as they were when the copy was made, as far as they were."""
        for name in names:
            if name in self.backup:
                self._put(("Secret", name), self.backup[name])

    def remove(self, kind: str, name: str) -> None:
        """Somebody deletes an object; pods serve on what they have mounted."""
        self.objects.pop((kind, name), None)

    def attempt(self, mishap: Callable[["Model"], None], settings: Settings) -> None:
        """Let the mishap happen, unless it would take away the last trace of a CA that pods may serve by."""
        before = dict(self.objects), {key: list(versions) for key, versions in self.history.items()}
        mishap(self)
        known = [*_trusted(self, settings)]
        served = [
            pair.certificate
            for span, value in _spans(self, ("Secret", settings.tls_secret), MOUNTED)
            if span.end >= self.time and isinstance(pair := _leaf(value.value), Pair)
        ]
        if not all(any(is_signed_by(leaf, ca) for ca in known) for leaf in served):
            self.objects, self.history = before

    def _put(self, key: Key, value: Object, *, ours: bool = False) -> None:
        self._version += 1
        before = self.objects.get(key, {})
        metadata = {"uid": f"u{self._version}", "generation": 0} | before.get("metadata", {}) | value["metadata"]
        changed = before.get("webhooks") != value.get("webhooks")
        metadata |= {"resourceVersion": str(self._version), "generation": metadata["generation"] + changed}
        self.objects[key] = value | {"metadata": metadata}
        self.history.setdefault(key, []).append(Stored(self.time, self.objects[key], ours))

    # --- what is stored -----------------------------------------------------------------------------------------------

    def secret(self, name: str) -> dict[str, bytes]:
        """The entries of a Secret."""
        return _data(self.objects["Secret", name])

    def leaf(self, settings: Settings) -> Certificate:
        """The serving certificate."""
        data = self.secret(settings.tls_secret)
        return read_certificates(data["tls.crt"])[0]

    def bundle(self, kind: str, name: str) -> tuple[Certificate, ...]:
        """The caBundle of the first webhook."""
        return _bundles(self.objects[kind, name])[0]


def _applied(current: Object, change: Object) -> Object | None:
    """The apply of `clientConfig.caBundle`; None if it would make an incomplete webhook."""
    new = {hook["name"]: hook["clientConfig"] for hook in change["webhooks"]}
    if not new.keys() <= {hook["name"] for hook in current["webhooks"]}:
        return None
    assert change["metadata"]["uid"] == current["metadata"]["uid"]
    assert all(config.keys() == {"caBundle"} for config in new.values())
    hooks = [hook | {"clientConfig": hook["clientConfig"] | new.get(hook["name"], {})} for hook in current["webhooks"]]
    return current | {"webhooks": hooks}


def _data(secret: Object) -> dict[str, bytes]:
    return msgspec.convert(secret["data"], type=dict[str, bytes], strict=False)


def _bundles(configuration: Object) -> list[tuple[Certificate, ...]]:
    pems = [hook["clientConfig"].get("caBundle", "") for hook in configuration["webhooks"]]
    return [read_certificates(msgspec.convert(pem, type=bytes)) for pem in pems]


# --- the promise ------------------------------------------------------------------------------------------------------


class Span(Struct, frozen=True):
    """From when to when something may be in use."""

    begin: datetime
    end: datetime


def refusals(model: Model, settings: Settings) -> list[str]:
    """Each certificate that a pod may have served while an API server may have held a bundle of ours that refuses it.

    A pod may serve what the Secret held up to 90 s ago, an API server judge by the bundle of `propagation` ago. What
    somebody else put into the Secret is no promise of ours, but what it held before may be served on.
    """
    leaves = [*_promised(model, settings)]
    propagation = timedelta(seconds=settings.propagation)
    configurations = ((MUTATING.kind, settings.mutating), (VALIDATING.kind, settings.validating))
    return [
        f"{at}: {kind} of {held.begin} refuses the certificate of {served.begin}"
        for kind, name in configurations
        for held, value in _spans(model, (kind, name), propagation)
        if value.ours
        for bundle in _bundles(value.value)
        for served, leaf in leaves
        for at in _meetings(held, served)
        if not verifies(leaf, bundle, settings.names[0], at)
    ]


def _promised(model: Model, settings: Settings) -> Iterator[tuple[Span, Certificate]]:
    """What we issued, but in place of what somebody else had put there by the same CA: that may be trusted nowhere yet."""
    foreign = b""
    for span, version in _spans(model, ("Secret", settings.tls_secret), MOUNTED):
        pair = _leaf(version.value)
        assert isinstance(pair, Pair)
        identifier = pair.certificate.extensions.get_extension_for_class(AuthorityKeyIdentifier).value.key_identifier
        if not version.ours:
            foreign = identifier or b""
        elif identifier != foreign:
            foreign = b""
            yield span, pair.certificate


def _meetings(one: Span, two: Span) -> tuple[datetime, ...]:
    """The first and the last second in which both are in use."""
    begin, end = max(one.begin, two.begin), min(one.end, two.end)
    return (begin, end - timedelta(seconds=1)) if begin < end else ()


def _trusted(model: Model, settings: Settings) -> Iterator[Certificate]:
    """Every certificate that is stored anywhere but as a serving certificate."""
    for name, keys in (
        (settings.ca_secret, ("tls.crt", "previous.crt", "old.crt")),
        (settings.tls_secret, ("ca.crt",)),
    ):
        if ("Secret", name) in model.objects:
            for key in keys:
                yield from read_certificates(model.secret(name).get(key, b""))
    for kind, name in ((MUTATING.kind, settings.mutating), (VALIDATING.kind, settings.validating)):
        for bundle in _bundles(model.objects[kind, name]):
            yield from bundle


def _leaf(secret: Object) -> Pair | object:
    data = _data(secret)
    return read_pair(data.get("tls.crt", b""), data.get("tls.key", b""))


def _spans(model: Model, key: Key, delay: timedelta) -> list[tuple[Span, Stored]]:
    """Each version, from its writing until it is in use nowhere: some time after a good one took its place."""
    versions = model.history.get(key, [])
    if key == ("Secret", key[1]):
        versions = [one for one in versions if isinstance(_leaf(one.value), Pair)]  # pods keep the last good pair
    ends = [*(one.at + delay for one in versions[1:]), model.time]
    return [(Span(one.at, min(end, model.time)), one) for one, end in zip(versions, ends, strict=True)]
