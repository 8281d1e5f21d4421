"""What a cluster holds of our certificates, parsed, so that it can be judged without asking anybody."""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from cryptography.hazmat.primitives import hashes
from cryptography.x509 import Certificate
from msgspec import Struct

from poolwarden.certs.issue import Pair, Unusable


class Missing(Struct, frozen=True, tag=True):
    """There is no such Secret."""


class Uninstalled(Struct, frozen=True, tag=True):
    """There is no such webhook configuration: nothing to publish."""

    kind: str
    name: str


class Unknown(Struct, frozen=True, tag=True):
    """It could not be read, or not be written just now; `message` is one line for people."""

    message: str


class Seen(Struct, frozen=True):
    """Since when every webhook configuration is known to be as `digest` says."""

    digest: str
    at: datetime


NEVER = Seen("", datetime.min.replace(tzinfo=UTC))


class Authority(Struct, frozen=True, tag=True):
    """The Secret of the CAs, which alone says which CAs there are.

    Attributes:
        version: resourceVersion.
        newest: what serving certificates are to be signed by, once every API server trusts it.
        previous: what they were signed by before (at most one): it signs on until the newest is trusted.
        old: further CAs of which something may still be served; their keys are gone.
        seen: since when the newest is in every caBundle.
        replaced: since when the serving Secret holds what the newest signed, and `retiring` are what they are.
        dropped: marks of the objects that held CAs when those were dropped here. They hold them on until they get the new
            bundle; what other objects hold has not been judged yet.
    """

    version: str
    newest: Pair | Unusable
    previous: tuple[Pair, ...] = ()
    old: tuple[Certificate, ...] = ()
    seen: Seen = NEVER
    replaced: Seen = NEVER
    dropped: frozenset[str] = frozenset()

    @property
    def retiring(self) -> tuple[Certificate, ...]:
        """All but the newest, newest first."""
        return (*(pair.certificate for pair in self.previous), *self.old)

    def bundle(self, now: datetime) -> tuple[Certificate, ...]:
        """What API servers are to trust: every CA that has not expired, newest first."""
        newest = (self.newest.certificate,) if isinstance(self.newest, Pair) else ()
        return unexpired((*newest, *self.retiring), now)


class Serving(Struct, frozen=True, tag=True):
    """The Secret that the webhook's pods mount. `bundle` is its ca.crt, `version` its resourceVersion."""

    version: str
    leaf: Pair | Unusable
    bundle: tuple[Certificate, ...]

    @property
    def mark(self) -> str:
        """Another whenever anybody changes it."""
        return f"Secret/{self.version}"


class Configuration(Struct, frozen=True, tag=True):
    """A webhook configuration. `bundles` are its caBundles by the names of its webhooks."""

    kind: str
    name: str
    uid: str
    version: str
    generation: int
    bundles: Mapping[str, tuple[Certificate, ...]]

    @property
    def mark(self) -> str:
        """Another whenever anybody changes a webhook."""
        return f"{self.uid}/{self.generation}"

    def trusts(self, ca: Certificate) -> bool:
        """Whether the CA is in each of its caBundles."""
        return all(ca in bundle for bundle in self.bundles.values())


class State(Struct, frozen=True):
    """All of it.

    The configurations must have been read before the authority: a bundle made from it may then replace what the
    configurations hold, for whoever published a bundle of newer CAs has changed them since, and the write conflicts.
    """

    authority: Authority | Missing | Unknown
    serving: Serving | Missing | Unknown
    configurations: tuple[Configuration | Uninstalled | Unknown, ...]

    @property
    def installed(self) -> tuple[Configuration, ...]:
        """The configurations that are there."""
        return tuple(one for one in self.configurations if isinstance(one, Configuration))

    @property
    def unknown(self) -> tuple[Unknown, ...]:
        """What could not be read or written."""
        parts = (self.authority, self.serving, *self.configurations)
        return tuple(part for part in parts if isinstance(part, Unknown))

    def seen_digest(self, ca: Certificate) -> str:
        """Changes whenever anybody changes a webhook (which makes a new generation), and with the CA."""
        return _digest(fingerprint(ca), *(one.mark for one in self.installed))

    def replaced_digest(self, newest: Certificate, retiring: tuple[Certificate, ...]) -> str:
        """Changes whenever anybody changes the serving Secret or a webhook, and with the CAs."""
        serving = self.serving.mark if isinstance(self.serving, Serving) else ""
        return _digest(self.seen_digest(newest), serving, *map(fingerprint, retiring))

    @property
    def marks(self) -> frozenset[str]:
        """Of all objects that hold a bundle."""
        return frozenset(one.mark for one in (self.serving, *self.configurations) if isinstance(one, _HOLDERS))


_HOLDERS = (Serving, Configuration)


def _digest(*told: str) -> str:
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def unexpired(certificates: tuple[Certificate, ...], now: datetime) -> tuple[Certificate, ...]:
    """Those that have not expired, each once, in their order."""
    return tuple(dict.fromkeys(one for one in certificates if now < one.not_valid_after_utc))


def fingerprint(certificate: Certificate) -> str:
    """SHA-256 of its DER."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def published(state: State, *, apart: frozenset[str] = frozenset()) -> Iterator[Certificate]:
    """Every certificate that is trusted or handed on somewhere, but in objects of these marks."""
    if isinstance(state.serving, Serving) and state.serving.mark not in apart:
        yield from state.serving.bundle
    for configuration in state.installed:
        if configuration.mark not in apart:
            for bundle in configuration.bundles.values():
                yield from bundle
