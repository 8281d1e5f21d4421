"""Endpoints: the per-pod objects in which an IPAM lists a pod's NICs and addresses."""

from hashlib import blake2b

from msgspec import Struct

from poolwarden.ipam.kinds import Kind


class EndpointAddress(Struct, frozen=True, gc=False):
    """An address of one NIC, canonical, and the name of the pool that it is from."""

    address: str
    pool: str


class EndpointItem(Struct, frozen=True, gc=False):
    """One NIC. `interface` is "" while no attachment has taken it."""

    interface: str
    addresses: tuple[EndpointAddress, ...]


class Endpoint(Struct, frozen=True, gc=False):
    """The IPAM's object about one pod.

    `uid` is the object's own, `owner_uid` that of the pod it was written for. `owner_kind` and `owner_name` are of the
    top controller as the IPAM recorded it. `items_unread` tells why its items cannot be read ("" if they can).
    """

    ipam: str
    kind: Kind
    namespace: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str
    node: str
    owner_kind: str
    owner_name: str
    items: tuple[EndpointItem, ...]
    finalizers: tuple[str, ...]
    terminating: bool
    items_unread: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name, which are the pod's (KubeVirt: the VM's)."""
        return self.namespace, self.name

    @property
    def addresses(self) -> tuple[EndpointAddress, ...]:
        """Every address of every NIC."""
        return tuple(address for item in self.items for address in item.addresses)

    @property
    def digest(self) -> str:
        """A short hash (16 hex digits) of which object it is, whose, and which NICs it lists."""
        return blake2b(repr((self.uid, self.owner_uid, self.items)).encode(), digest_size=8).hexdigest()
