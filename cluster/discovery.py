"""Which kinds the API server serves, so that "not installed" is never mistaken for "not readable", nor the reverse."""

from http import HTTPStatus

import msgspec
from msgspec import Struct

from poolwarden.cluster.exchange import Exchange
from poolwarden.cluster.interface import Complete, Doubt, Incomplete, NotInstalled, Resource
from poolwarden.cluster.runtime import Runtime
from poolwarden.cluster.transport import NoAnswer
from poolwarden.cluster.wire import Failure, Refusal, label, version_path

_TTL_SECONDS = 60.0


class _Kind(Struct, frozen=True):
    name: str


class _Kinds(Struct, frozen=True, tag_field="kind", tag="APIResourceList"):
    resources: tuple[_Kind, ...]


class _Version(Struct, frozen=True):
    version: str


class _Group(Struct, frozen=True):
    name: str
    versions: tuple[_Version, ...]


class _Groups(Struct, frozen=True, tag_field="kind", tag="APIGroupList"):
    groups: tuple[_Group, ...]


_KINDS = msgspec.json.Decoder(_Kinds)
_GROUPS = msgspec.json.Decoder(_Groups)


class Discovery:
    """Asks once per version of a group and remembers for a minute, or until told to forget."""

    def __init__(self, exchange: Exchange, runtime: Runtime) -> None:
        self._exchange = exchange
        self._runtime = runtime
        self._kinds: dict[tuple[str, str], frozenset[str]] = {}
        self._versions: dict[str, tuple[str, ...]] = {}
        self._forget_at = 0.0

    def forget(self) -> None:
        """Ask anew from here on."""
        self._kinds = {}
        self._versions = {}
        self._forget_at = self._runtime.monotonic() + _TTL_SECONDS

    def served(self, resource: Resource) -> Complete | NotInstalled | Incomplete:
        """Whether the kind is served in the version that we read.

        A 404 alone proves nothing (a proxy may have sent it): not installed is what the server's own lists of groups
        and kinds do not name in any version.
        """
        if self._runtime.monotonic() >= self._forget_at:
            self.forget()
        kinds = self._kinds_of(resource.group, resource.version)
        if isinstance(kinds, Refusal) and kinds.code == HTTPStatus.NOT_FOUND:
            return self._elsewhere(resource, missing=True)
        if isinstance(kinds, Refusal | NoAnswer):
            return _unknown(resource, kinds)
        return Complete() if resource.plural in kinds else self._elsewhere(resource, missing=False)

    def has_subresource(self, resource: Resource, subresource: str) -> bool:
        """Whether the server is known to serve it."""
        kinds = self._kinds_of(resource.group, resource.version)
        return not isinstance(kinds, Refusal | NoAnswer) and f"{resource.plural}/{subresource}" in kinds

    def _elsewhere(self, resource: Resource, *, missing: bool) -> NotInstalled | Incomplete:
        """The kind is not served in our version (`missing`: nothing is); perhaps it is in another one."""
        groups = self._groups()
        if isinstance(groups, Refusal | NoAnswer):
            return _unknown(resource, groups)
        versions = groups.get(resource.group, ())
        if missing and resource.version in versions:
            message = f"cannot tell whether {label(resource)} exist: {resource.version} is being installed or removed"
            return Incomplete(Doubt.UNAVAILABLE, message)
        for version in versions:
            kinds = self._kinds_of(resource.group, version)
            if isinstance(kinds, Refusal | NoAnswer):
                return _unknown(resource, kinds)
            if resource.plural in kinds:
                message = f"cannot list {label(resource)}: served as {version}, not as {resource.version}"
                return Incomplete(Doubt.REJECTED, message)
        return NotInstalled()

    def _kinds_of(self, group: str, version: str) -> frozenset[str] | Failure:
        known = self._kinds.get((group, version))
        if known is not None:
            return known
        answer = self._exchange.read(version_path(group, version), {}, _KINDS.decode)
        if isinstance(answer, Refusal | NoAnswer):
            return answer
        kinds = frozenset(kind.name for kind in answer.resources)
        self._kinds[group, version] = kinds
        return kinds

    def _groups(self) -> dict[str, tuple[str, ...]] | Failure:
        if not self._versions:
            answer = self._exchange.read("/apis", {}, _GROUPS.decode)
            if isinstance(answer, Refusal | NoAnswer):
                return answer
            # The core group is not among them: it has a path of its own, and only ever this version.
            core = {"": ("v1",)}
            self._versions = core | {
                group.name: tuple(one.version for one in group.versions) for group in answer.groups
            }
        return self._versions


def _unknown(resource: Resource, failure: Failure) -> Incomplete:
    return Incomplete(failure.doubt, f"cannot tell whether {label(resource)} are served: {failure.message}")
