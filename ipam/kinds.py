"""The kinds of objects that the domain reads, by group, version and plural."""

from msgspec import Struct


class Kind(Struct, frozen=True):
    """A kind as the API server serves it; `group` is "" for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """As objects carry it: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def kubectl_name(self) -> str:
        """What `kubectl get` takes without ambiguity: `pods`, `statefulsets.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS = Kind("", "v1", "pods", "Pod", namespaced=True)
NODES = Kind("", "v1", "nodes", "Node", namespaced=False)
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
NETWORK_ATTACHMENTS = Kind(
    "k8s.cni.cncf.io", "v1", "network-attachment-definitions", "NetworkAttachmentDefinition", namespaced=True
)
VIRTUAL_MACHINES = Kind("kubevirt.io", "v1", "virtualmachines", "VirtualMachine", namespaced=True)
VIRTUAL_MACHINE_INSTANCES = Kind(
    "kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance", namespaced=True
)
