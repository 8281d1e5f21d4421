"""Rules about SpiderMultusConfig, from which Spiderpool makes a NetworkAttachmentDefinition.

Source: Spiderpool, `pkg/multuscniconfig` (`multusconfig_validate.go`, `multusconfig_informer.go`).
"""

from collections.abc import Iterator

from msgspec import Struct, field

from poolwarden.ipam.address import V4, V6
from poolwarden.ipam.config_block import NoCniConfig, parse_cni_config
from poolwarden.ipam.interface import InvalidName, NameRule, ValidName, check_name
from poolwarden.webhook.patch import Operation, pointer
from poolwarden.webhook.pod.problem import quoted
from poolwarden.webhook.pool.cni_config import cni_faults
from poolwarden.webhook.pool.fault import Fault, Weight, warned
from poolwarden.webhook.pool.pool_names import pool_name_faults
from poolwarden.webhook.pool.scene import Scene

MOST_MASTERS = 1000
LAST_VLAN = 4094
LAST_BOND_MODE = 6


class Bond(Struct, frozen=True, gc=False):
    """`bond`."""

    name: str = ""
    mode: int = 0


class DefaultPools(Struct, frozen=True, gc=False):
    """`ippools`."""

    ipv4: tuple[str, ...] | None = None
    ipv6: tuple[str, ...] | None = None


class Block(Struct, frozen=True, gc=False):
    """The block of one `cniType`, with the fields that rules look at."""

    ippools: DefaultPools | None = None


class OnMasters(Block, frozen=True, gc=False):
    """`macvlan`, `ipvlan`, `vlan`."""

    master: tuple[str, ...] | None = None
    vlan_id: int | None = field(name="vlanID", default=None)
    bond: Bond | None = None


class Ipoib(Block, frozen=True, gc=False):
    """`ipoib`."""

    master: str | None = None


class Sriov(Block, frozen=True, gc=False):
    """`sriov`."""

    vlan_id: int | None = field(name="vlanID", default=None)


class Ovs(Block, frozen=True, gc=False):
    """`ovs`."""

    bridge: str | None = None
    vlan: int | None = None


class Coordinator(Struct, frozen=True, gc=False):
    """`coordinator`."""

    pod_default_route_nic: str | None = field(name="podDefaultRouteNIC", default=None)


class ConfigText(Struct, frozen=True, rename="camel", gc=False):
    """SpiderMultusConfig.spec."""

    cni_type: str = "custom"
    disable_ipam: bool | None = field(name="disableIPAM", default=None)
    macvlan: OnMasters | None = None
    ipvlan: OnMasters | None = None
    vlan: OnMasters | None = None
    ipoib: Ipoib | None = None
    sriov: Sriov | None = None
    ibsriov: Block | None = None
    ovs: Ovs | None = None
    coordinator: Coordinator | None = None
    custom_cni: str | None = field(name="customCNI", default=None)
    chain_cni_json_data: tuple[str, ...] | None = field(name="chainCNIJsonData", default=None)

    @property
    def on_masters(self) -> dict[str, OnMasters]:
        """The blocks that name masters of the host, by their field."""
        found = {"macvlan": self.macvlan, "ipvlan": self.ipvlan, "vlan": self.vlan}
        return {key: block for key, block in found.items() if block is not None}

    @property
    def blocks(self) -> dict[str, Block]:
        """All blocks that are there, by their field."""
        rest = {"ipoib": self.ipoib, "sriov": self.sriov, "ibsriov": self.ibsriov, "ovs": self.ovs}
        return {**self.on_masters, **{key: block for key, block in rest.items() if block is not None}}


class MultusConfig(Struct, frozen=True, gc=False):
    """A SpiderMultusConfig."""

    spec: ConfigText = ConfigText()


_FIELDS = {kind: kind.replace("-", "") for kind in ("macvlan", "ipvlan", "vlan", "ipoib", "sriov", "ib-sriov", "ovs")}
"""The field that holds the block of a `cniType`; `custom` has none."""


def config_edits(config: MultusConfig, _before: MultusConfig) -> Iterator[Operation]:
    """Blanks round the names of interfaces go; a name that stays bad is left for the refusal to quote."""
    spec = config.spec
    for key, block in spec.on_masters.items():
        masters = tuple(map(_trimmed, block.master or ()))
        if masters != (block.master or ()):
            yield Operation(pointer("spec", key, "master"), list(masters))
    single = (
        *(((key, "bond", "name"), block.bond and block.bond.name) for key, block in spec.on_masters.items()),
        (("ipoib", "master"), spec.ipoib and spec.ipoib.master),
        (("ovs", "bridge"), spec.ovs and spec.ovs.bridge),
        (("coordinator", "podDefaultRouteNIC"), spec.coordinator and spec.coordinator.pod_default_route_nic),
    )
    for path, name in single:
        if name and _trimmed(name) != name:
            yield Operation(pointer("spec", *path), _trimmed(name))


def config_faults(config: MultusConfig, scene: Scene) -> Iterator[Fault]:
    """What is wrong with the block that fits `cniType`; others are ignored."""
    spec = config.spec
    kind = spec.cni_type
    if kind == "custom":
        if spec.custom_cni:
            yield from cni_faults("spec.customCNI", spec.custom_cni, scene)
    elif kind not in _FIELDS:
        yield Fault("spec.cniType", f"{quoted(kind)} is not allowed; allowed: {', '.join((*_FIELDS, 'custom'))}")
    elif _FIELDS[kind] not in spec.blocks:
        yield Fault(f"spec.{_FIELDS[kind]}", f"is required where cniType is {kind}")
    else:
        yield from _block_faults(f"spec.{_FIELDS[kind]}", spec.blocks[_FIELDS[kind]], scene)
        if spec.disable_ipam and _has_pools(spec.blocks[_FIELDS[kind]]):
            yield warned(f"spec.{_FIELDS[kind]}.ippools", "does nothing where spec.disableIPAM is true")
    for at, text in enumerate(spec.chain_cni_json_data or ()):
        parsed = parse_cni_config(text)
        if isinstance(parsed, NoCniConfig):
            yield Fault(f"spec.chainCNIJsonData[{at}]", parsed.problem)
    if spec.coordinator is not None and spec.coordinator.pod_default_route_nic:
        yield from _name_faults("spec.coordinator.podDefaultRouteNIC", spec.coordinator.pod_default_route_nic)


def _trimmed(name: str) -> str:
    bare = name.strip()
    return bare if bare != name and isinstance(check_name(bare), ValidName) else name


def _has_pools(block: Block) -> bool:
    return block.ippools is not None and bool(block.ippools.ipv4 or block.ippools.ipv6)


def _block_faults(where: str, block: Block, scene: Scene) -> Iterator[Fault]:
    match block:
        case OnMasters():
            yield from _masters_faults(where, block, made_by_pod=where == "spec.vlan")
        case Ipoib():
            yield from _name_faults(f"{where}.master", block.master or "", too_long=Weight.WARN)
        case Sriov():
            yield from _number_faults(f"{where}.vlanID", block.vlan_id, LAST_VLAN)
        case Ovs():
            yield from _number_faults(f"{where}.vlan", block.vlan, LAST_VLAN)
            if block.bridge:
                yield from _name_faults(f"{where}.bridge", block.bridge)
    pools = block.ippools or DefaultPools()
    yield from pool_name_faults(f"{where}.ippools.ipv4", pools.ipv4 or (), V4, scene.knowledge)
    yield from pool_name_faults(f"{where}.ippools.ipv6", pools.ipv6 or (), V6, scene.knowledge)


def _masters_faults(where: str, block: OnMasters, *, made_by_pod: bool) -> Iterator[Fault]:
    """`made_by_pod` if the VLAN's interface may be made in the pod's network namespace, under a name of its own."""
    masters, bond = block.master or (), block.bond
    if not masters:
        yield Fault(f"{where}.master", "is empty; needed: the name of an interface of the host")
    # A longer name may be an alternative one of the interface; no name is made from it here.
    alone = bond is None and (made_by_pod or not block.vlan_id)
    seen: set[str] = set()
    if len(masters) > MOST_MASTERS:
        yield warned(f"{where}.master", f"only the first {MOST_MASTERS} are judged")
    for at, name in enumerate(masters[:MOST_MASTERS]):
        yield from _name_faults(f"{where}.master[{at}]", name, too_long=Weight.WARN if alone else Weight.REFUSE)
        if name in seen:
            yield Fault(f"{where}.master[{at}]", f"{quoted(name)} stands twice; each interface may stand once")
        seen.add(name)
    if len(masters) > 1 and bond is None:
        yield Fault(f"{where}.bond", f"is required where there are several masters ({len(masters)})")
    if bond is not None:
        yield from _name_faults(f"{where}.bond.name", bond.name)
        yield from _number_faults(f"{where}.bond.mode", bond.mode, LAST_BOND_MODE)
    yield from _number_faults(f"{where}.vlanID", block.vlan_id, LAST_VLAN)
    yield from _vlan_name_faults(where, block, Weight.WARN if made_by_pod else Weight.REFUSE)


def _vlan_name_faults(where: str, block: OnMasters, weight: Weight) -> Iterator[Fault]:
    """Spiderpool makes an interface `<master>.<vlanID>` on the host."""
    masters, bond = block.master or (), block.bond
    below = bond.name if bond is not None and len(masters) > 1 else "".join(masters[:1])
    if not block.vlan_id or not isinstance(check_name(below), ValidName):
        return
    name = f"{below}.{block.vlan_id}"
    if isinstance(checked := check_name(name), InvalidName):
        yield Fault(f"{where}.vlanID", f"{block.vlan_id} makes the interface {name}: {checked.message}", weight)


def _name_faults(where: str, name: str, *, too_long: Weight = Weight.REFUSE) -> Iterator[Fault]:
    checked = check_name(name)
    if isinstance(checked, InvalidName):
        yield Fault(where, checked.message, too_long if checked.rule is NameRule.TOO_LONG else Weight.REFUSE)


def _number_faults(where: str, number: int | None, last: int) -> Iterator[Fault]:
    if number is not None and not 0 <= number <= last:
        yield Fault(where, f"{number} is not allowed; allowed: 0 to {last}")
