"""The few fields of Kubernetes objects that the judge trusts, as narrow Structs; everything else is skipped unread.

`gc=False` here and in the modules beside: none of these objects can be part of a cycle, and the interpreter would walk
hundreds of thousands of them again and again.
"""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct, field

NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
DEFAULT_NETWORK = "v1.multus-cni.io/default-network"
MIRROR = "kubernetes.io/config.mirror"
OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"


Timestamp = Annotated[datetime, Meta(tz=True)]
"""A time that says its zone, as metav1.Time does; anything else makes its object unreadable."""
LONGEST_GRACE = 30 * 86400
"""Seconds. `terminationGracePeriodSeconds` is an int64; what is longer than a month is as good as a month."""


class OwnerReference(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.OwnerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class PodAnnotations(Struct, frozen=True, gc=False):
    """The annotations that say what a pod's NICs are; None where the pod has none of that name."""

    network_status: str | None = field(name=NETWORK_STATUS, default=None)
    old_network_status: str | None = field(name="k8s.v1.cni.cncf.io/networks-status", default=None)
    networks: str | None = field(name=NETWORKS, default=None)
    default_network: str | None = field(name=DEFAULT_NETWORK, default=None)
    ippools: str | None = field(name="ipam.spidernet.io/ippools", default=None)
    ippool: str | None = field(name="ipam.spidernet.io/ippool", default=None)
    mirror: str | None = field(name=MIRROR, default=None)


class PodLabels(Struct, frozen=True, gc=False):
    """The label that says which Neon VM a pod runs; None where the pod has none of that name."""

    neon_machine: str | None = field(name="vm.neon.tech/name", default=None)


class Metadata(Struct, frozen=True, rename="camel", gc=False):
    """metav1.ObjectMeta, as far as it identifies an object."""

    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    finalizers: tuple[str, ...] | None = None


class PodMetadata(Struct, frozen=True, rename="camel", gc=False):
    """metav1.ObjectMeta of a pod."""

    name: str
    uid: str = ""
    namespace: str = ""
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    labels: PodLabels | None = None
    annotations: PodAnnotations | None = None


class Named(Struct, frozen=True, gc=False):
    """A container of a pod's spec."""

    name: str


class PodSpec(Struct, frozen=True, rename="camel", gc=False):
    """corev1.PodSpec."""

    node_name: str = ""
    host_network: bool | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    containers: tuple[Named, ...] | None = None
    init_containers: tuple[Named, ...] | None = None
    ephemeral_containers: tuple[Named, ...] | None = None


class Terminated(Struct, frozen=True, gc=False, rename="camel"):
    """corev1.ContainerStateTerminated."""

    finished_at: Timestamp | None = None


class ContainerState(Struct, frozen=True, gc=False):
    """corev1.ContainerState: only whether it is terminated decides anything."""

    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True, gc=False):
    """corev1.ContainerStatus."""

    name: str
    state: ContainerState | None = None


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    """A condition of a pod or node."""

    type: str
    status: str
    last_transition_time: Timestamp | None = None


class PodIP(Struct, frozen=True, gc=False):
    """corev1.PodIP."""

    ip: str = ""


class PodStatus(Struct, frozen=True, rename="camel", gc=False):
    """corev1.PodStatus."""

    phase: str = "Pending"
    conditions: tuple[Condition, ...] | None = None
    pod_ip: str = field(name="podIP", default="")
    pod_ips: tuple[PodIP, ...] | None = field(name="podIPs", default=None)
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    ephemeral_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Struct, frozen=True, gc=False):
    """corev1.Pod."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def annotations(self) -> PodAnnotations:
        """Its annotations, an empty set if it has none."""
        return self.metadata.annotations or PodAnnotations()

    @property
    def terminal(self) -> bool:
        """Whether its phase says that its containers have ended for good."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def mirror(self) -> bool:
        """Whether a kubelet runs it from a file: its UID changes while its sandbox runs on."""
        return self.annotations.mirror is not None

    @property
    def host_network(self) -> bool:
        """Whether it has its node's addresses, none of a pool."""
        return bool(self.spec.host_network)

    @property
    def ips(self) -> tuple[str, ...]:
        """`status.podIPs` as written, or the older `status.podIP`."""
        listed = tuple(item.ip for item in self.status.pod_ips or () if item.ip)
        return listed or ((self.status.pod_ip,) if self.status.pod_ip else ())

    @property
    def grace(self) -> int:
        """Seconds that its containers may take to end, as far as it says so."""
        return min(max(self.spec.termination_grace_period_seconds or 0, 0), LONGEST_GRACE)

    @property
    def machine(self) -> str:
        """The name of the KubeVirt VMI that it runs, "" if it is no virt-launcher pod."""
        references = self.metadata.owner_references or ()
        return next((item.name for item in references if item.kind == "VirtualMachineInstance"), "")

    def condition(self, kind: str) -> str:
        """The status of a condition: "True", "False", "Unknown", or "" if it is not reported."""
        return next((item.status for item in self.status.conditions or () if item.type == kind), "")

    @property
    def running_and_ready(self) -> bool:
        """Running, Ready, and not being deleted."""
        return (
            self.status.phase == "Running"
            and self.condition("Ready") == "True"
            and self.metadata.deletion_timestamp is None
        )


class NodeTaint(Struct, frozen=True, gc=False):
    """corev1.Taint."""

    key: str


class NodeSpec(Struct, frozen=True, gc=False):
    """corev1.NodeSpec."""

    taints: tuple[NodeTaint, ...] | None = None


class NodeStatus(Struct, frozen=True, gc=False):
    """corev1.NodeStatus."""

    conditions: tuple[Condition, ...] | None = None


class Node(Struct, frozen=True, gc=False):
    """corev1.Node."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether its kubelet answers."""
        return any(item.type == "Ready" and item.status == "True" for item in self.status.conditions or ())

    @property
    def not_ready_since(self) -> datetime | None:
        """When its Ready condition last changed; None if that is not said."""
        return next((item.last_transition_time for item in self.status.conditions or () if item.type == "Ready"), None)

    @property
    def fenced(self) -> bool:
        """Whether an operator vouches that nothing runs there (the out-of-service taint)."""
        return any(taint.key == OUT_OF_SERVICE_TAINT for taint in self.spec.taints or ())


class Ordinals(Struct, frozen=True, gc=False):
    """appsv1.StatefulSetOrdinals."""

    start: int = 0


class TemplateSpec(Struct, frozen=True, gc=False, rename="camel"):
    """The corev1.PodSpec of a template."""

    termination_grace_period_seconds: int | None = None


class Template(Struct, frozen=True, gc=False):
    """corev1.PodTemplateSpec."""

    spec: TemplateSpec = TemplateSpec()


class StatefulSetSpec(Struct, frozen=True, gc=False):
    """appsv1.StatefulSetSpec."""

    replicas: int | None = None
    ordinals: Ordinals | None = None
    template: Template = Template()


class StatefulSet(Struct, frozen=True, gc=False):
    """appsv1.StatefulSet."""

    metadata: Metadata
    spec: StatefulSetSpec = StatefulSetSpec()

    @property
    def grace(self) -> int:
        """TerminationGracePeriodSeconds of its pods."""
        return min(max(self.spec.template.spec.termination_grace_period_seconds or 0, 0), LONGEST_GRACE)

    def entitles(self, ordinal: int) -> bool:
        """Whether a pod of that ordinal is wanted. Replicas default to 1, ordinals start at 0 unless said otherwise."""
        start = self.spec.ordinals.start if self.spec.ordinals else 0
        replicas = 1 if self.spec.replicas is None else self.spec.replicas
        return start <= ordinal < start + replicas


class AttachmentSpec(Struct, frozen=True, gc=False):
    """NetworkAttachmentDefinitionSpec: a CNI configuration as JSON text."""

    config: str = ""


class NetworkAttachment(Struct, frozen=True, gc=False):
    """A NetworkAttachmentDefinition."""

    metadata: Metadata
    spec: AttachmentSpec = AttachmentSpec()


class MachineInterface(Struct, frozen=True, rename="camel", gc=False):
    """A NIC in a KubeVirt VMI's status."""

    ip_address: str = ""
    ip_addresses: tuple[str, ...] | None = None


class MachineStatus(Struct, frozen=True, gc=False):
    """A KubeVirt VM's or VMI's status, as far as it shows addresses (a VM's shows none)."""

    interfaces: tuple[MachineInterface, ...] | None = None


class Machine(Struct, frozen=True, gc=False):
    """A KubeVirt VirtualMachine or VirtualMachineInstance."""

    metadata: Metadata
    status: MachineStatus = MachineStatus()

    @property
    def ips(self) -> tuple[str, ...]:
        """The addresses that its status shows, as written."""
        return tuple(
            ip for nic in self.status.interfaces or () for ip in (nic.ip_address, *(nic.ip_addresses or ())) if ip
        )
