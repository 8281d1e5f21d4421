"""What the rules are told about the cluster that no object in it says."""

from enum import StrEnum

from msgspec import Struct


class DefaultNetwork(StrEnum):
    """Which IPAM serves `eth0` where a pod names no default network of its own."""

    UNKNOWN = "unknown"
    SPIDERPOOL = "spiderpool"
    OTHER = "other"


class RuleSettings(Struct, frozen=True):
    """Settings of the rules.

    Attributes:
        default_network: the IPAM of the cluster's default network.
        default_networks: how many cluster-wide default networks (`defaultNetworks` of Multus' own configuration)
            precede those of a pod's annotation: they take net1, net2, ...
        system_namespaces: where Multus attaches none of these (`systemNamespaces` of its configuration).
        multus_namespace: where Multus looks for a default network that is named without namespace.
        lease_seconds: how long two leaders of gc may overlap at most; a cooldown should be longer.
    """

    default_network: DefaultNetwork = DefaultNetwork.UNKNOWN
    default_networks: int = 0
    system_namespaces: frozenset[str] = frozenset({"kube-system"})
    multus_namespace: str = "kube-system"
    lease_seconds: int = 15

    def preceding(self, namespace: str) -> int:
        """How many NICs a pod of a namespace has before those of its annotation: `eth0` and the default networks."""
        return 1 if namespace in self.system_namespaces else 1 + self.default_networks
