"""The kinds that certificates are kept in, and published by."""

from poolwarden.cluster.kinds import OwnKind

_ADMISSION = "admissionregistration.k8s.io"

SECRETS = OwnKind("", "v1", "secrets", "Secret", namespaced=True)
MUTATING = OwnKind(_ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False)
VALIDATING = OwnKind(
    _ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)
