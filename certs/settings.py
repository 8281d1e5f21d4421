"""What the certificates are for, and how long they live."""

from datetime import timedelta
from ipaddress import ip_address

from msgspec import Struct

SERVICE = "poolwarden-webhook"
TLS_SECRET = "poolwarden-webhook-tls"  # noqa: S105 - the name of a Secret
CA_SECRET = "poolwarden-webhook-ca"  # noqa: S105 - likewise
CONFIGURATION = "poolwarden"
CA_DAYS = 365
LEAF_DAYS = 90
LONGEST_LIFE = 36500
"""Days. A century; a certificate must end before the year 10000."""


class Settings(Struct, frozen=True):
    """Names and times.

    With `--certificates provided` none of this package runs: whoever provides the certificates (cert-manager with its
    cainjector, say) fills the Secret that the webhook's pods mount, and every `caBundle`.

    Attributes:
        namespace: of the Service and both Secrets.
        service: that the API servers call the webhook by.
        tls_secret: the serving certificate with its key and the bundle of CAs; webhook pods mount it.
        ca_secret: the CAs with their keys; no pod mounts it.
        mutating: the MutatingWebhookConfiguration whose webhooks get our bundle.
        validating: the ValidatingWebhookConfiguration likewise.
        extra_names: DNS names and IP addresses that the serving certificate holds, too.
        ca_days: life of a CA. It is replaced at two thirds, so a third should outlast a serving certificate, which else
            is cut to the end of its CA.
        leaf_days: life of a serving certificate.
        propagation: seconds from a bundle's being stored until every API server uses it. They watch the configurations
            and have them in milliseconds; a watch that broke is begun anew within seconds.
        retirement: seconds from a serving certificate's being seen in store until any other is served nowhere. The
            kubelet refreshes a mounted Secret within its sync period and cache time, about 90 s; the rest is for
            kubelets under load, and for a step of the clock of some minutes.
    """

    namespace: str
    service: str = SERVICE
    tls_secret: str = TLS_SECRET
    ca_secret: str = CA_SECRET
    mutating: str = CONFIGURATION
    validating: str = CONFIGURATION
    extra_names: tuple[str, ...] = ()
    ca_days: int = CA_DAYS
    leaf_days: int = LEAF_DAYS
    propagation: int = 10
    retirement: int = 600

    def __post_init__(self) -> None:
        """Refuse lives that no certificate can have."""
        for life in (self.ca_days, self.leaf_days):
            if not 1 <= life <= LONGEST_LIFE:
                message = f"a life of {life} days; allowed are 1 to {LONGEST_LIFE}"
                raise ValueError(message)

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the serving certificate: API servers call `<service>.<namespace>.svc`, people the others."""
        inside = f"{self.service}.{self.namespace}"
        own = (f"{inside}.svc", f"{inside}.svc.cluster.local", inside, self.service)
        return tuple(dict.fromkeys((*own, *map(_canonical, self.extra_names))))

    @property
    def ca_life(self) -> timedelta:
        """From its making to its end."""
        return timedelta(days=self.ca_days)

    @property
    def leaf_life(self) -> timedelta:
        """Likewise of a serving certificate."""
        return timedelta(days=self.leaf_days)


def _canonical(name: str) -> str:
    """As a certificate gives the name back."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name
