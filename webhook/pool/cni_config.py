"""Rules about a CNI configuration: that of a NetworkAttachmentDefinition, or of a SpiderMultusConfig.

Only what is known of whereabouts, Neon's IPAM and Spiderpool is judged; other plugins' settings are their own affair.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from poolwarden.ipam import spiderpool, whereabouts
from poolwarden.ipam.address import V4, V6
from poolwarden.ipam.config_block import Block, NoCniConfig, Notes, ipam_type, parse_cni_config
from poolwarden.ipam.interface import InvalidName, NameRule, check_name
from poolwarden.ipam.neon_config import NeonConfigRefused, is_neon, parse_neon
from poolwarden.ipam.whereabouts_config import WhereaboutsConfigRefused, parse_whereabouts
from poolwarden.webhook.pool.fault import Fault, Weight, warned
from poolwarden.webhook.pool.pool_names import pool_name_faults
from poolwarden.webhook.pool.scene import Scene

_ON_MASTER = frozenset({"macvlan", "ipvlan", "vlan"})
"""Plugins whose `master` is the name of an interface of the host."""
_SPIDERPOOL_TEXTS = ("type", "log_level", "log_file_path", "ipam_unix_socket_path")
_SPIDERPOOL_NUMBERS = ("log_file_max_size", "log_file_max_age", "log_file_max_count")
_SPIDERPOOL_FLAGS = ("clean_gateway", "match_master_subnet")
_SPIDERPOOL_POOLS = {"default_ipv4_ippool": V4, "default_ipv6_ippool": V6}
_SPIDERPOOL_KEYS = frozenset((*_SPIDERPOOL_TEXTS, *_SPIDERPOOL_NUMBERS, *_SPIDERPOOL_FLAGS, *_SPIDERPOOL_POOLS))
"""Spiderpool, `cmd/spiderpool/cmd/cni_types.go`, `IPAMConfig`."""


def cni_faults(where: str, text: str, scene: Scene) -> Iterator[Fault]:
    """What is wrong with a configuration; `where` is the field that holds it."""
    config = parse_cni_config(text)
    if isinstance(config, NoCniConfig):
        yield Fault(where, config.problem)
        return
    if config.passed_over:
        yield warned(where, f"the last {config.passed_over} plugins are not judged: there are too many")
    for path, plugin in config.plugins:
        yield from _master_faults(f"{where} {path}master", plugin)
        ipam = plugin.get("ipam")
        if isinstance(ipam, dict):
            yield from _ipam_faults(where, f"{path}ipam", ipam, scene)
        elif ipam is not None:
            yield Fault(f"{where} {path}ipam", "is no object; needed: the settings of an IPAM plugin")


def _master_faults(where: str, plugin: Mapping[str, Any]) -> Iterator[Fault]:
    master = plugin.get("master")
    kind = plugin.get("type")
    if not isinstance(kind, str) or kind not in _ON_MASTER or not isinstance(master, str) or not master:
        return
    checked = check_name(master)
    if isinstance(checked, InvalidName):
        # A longer one may be an alternative name of the interface (`ip link property add altname`).
        weight = Weight.WARN if checked.rule is NameRule.TOO_LONG else Weight.REFUSE
        yield Fault(where, checked.message, weight)


def _ipam_faults(where: str, path: str, ipam: Mapping[str, Any], scene: Scene) -> Iterator[Fault]:
    kind = ipam_type(ipam)
    if kind == whereabouts.NAME:
        config = parse_whereabouts(ipam, path)
        if isinstance(config, WhereaboutsConfigRefused):
            yield from (Fault(f"{where} {fault.key}", fault.text) for fault in config.faults)
        yield from (warned(f"{where} {remark.key}", remark.text) for remark in config.remarks)
    elif kind == spiderpool.NAME:
        yield from _spiderpool_faults(where, path, ipam, scene)
    elif is_neon(ipam):
        settings = parse_neon(ipam, path)
        if isinstance(settings, NeonConfigRefused):
            yield from (Fault(f"{where} {fault.key}", fault.text) for fault in settings.faults)
        yield from (warned(f"{where} {remark.key}", remark.text) for remark in settings.remarks)


def _spiderpool_faults(where: str, path: str, ipam: Mapping[str, Any], scene: Scene) -> Iterator[Fault]:
    notes = Notes()
    block = Block(ipam, path, notes)
    block.note_unknown(_SPIDERPOOL_KEYS, "Spiderpool")
    for key, family in _SPIDERPOOL_POOLS.items():
        yield from pool_name_faults(f"{where} {path}.{key}", block.texts(key), family, scene.knowledge)
    for read, keys in (
        (block.text, _SPIDERPOOL_TEXTS),
        (block.number, _SPIDERPOOL_NUMBERS),
        (block.flag, _SPIDERPOOL_FLAGS),
    ):
        for key in keys:
            read(key)
    yield from (Fault(f"{where} {fault.key}", fault.text) for fault in notes.faults)
    yield from (warned(f"{where} {remark.key}", remark.text) for remark in notes.remarks)
