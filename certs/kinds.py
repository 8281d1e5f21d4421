"""The kinds that certificates are kept in, and published by."""

from msgspec import Struct


class Kind(Struct, frozen=True):
    """A `Resource`; `group` is "" for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """As objects carry it."""
        return f"{self.group}/{self.version}" if self.group else self.version


_ADMISSION = "admissionregistration.k8s.io"

SECRETS = Kind("", "v1", "secrets", "Secret", namespaced=True)
MUTATING = Kind(_ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False)
VALIDATING = Kind(
    _ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)
