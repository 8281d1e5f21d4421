"""What the API server itself keeps and refuses of PoolGuards, whether or not the webhook runs."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.client import ApiError
from controlplane.plane import ControlPlane
from controlplane.server import wait_for

HERE = Path(__file__).parent
CRD_FILE = HERE.parents[1] / "manifests" / "crd" / "poolguards.yaml"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/poolguards.poolwarden.dev"
GUARDS = "/apis/poolwarden.dev/v1alpha1/poolguards"
COLUMNS = ["NAME", "IPAM", "POOL", "SIZE", "ALLOCATED", "UNKNOWN", "COOLDOWN", "FREE", "LEAKED", "MODE", "AGE"]

Object = dict[str, Any]


class Guards:
    """Makes PoolGuards for pools of their own, and removes them."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._made: list[str] = []

    def make(self, spec: Object | None = None, *, pool: Object | None = None, status: Object | None = None) -> Object:
        """Creates a guard with this spec, and returns what the API server made of it."""
        pool = pool or {"ipam": "spiderpool", "name": "default-v4"}
        guard: Object = {
            "apiVersion": "poolwarden.dev/v1alpha1",
            "kind": "PoolGuard",
            "metadata": {"name": f"{pool['ipam']}.{secrets.token_hex(6)}"},
            "spec": {"poolRef": pool} | (spec or {}),
        }
        if status is not None:
            guard["status"] = status
        made = self._plane.request("POST", f"{GUARDS}?fieldValidation=Strict", guard)
        self._made.append(guard["metadata"]["name"])
        return made

    def patch(self, guard: Object, change: Object, *, subresource: str = "") -> Object:
        """Merges the change into the guard, and returns the guard after it."""
        path = f"{GUARDS}/{guard['metadata']['name']}{subresource}?fieldValidation=Strict"
        return self._plane.request("PATCH", path, change)

    def set_status(self, guard: Object, status: Object) -> Object:
        """Merges the status into the guard's, and returns the guard as it is stored then."""
        self.patch(guard, {"status": status}, subresource="/status")
        return self._plane.request("GET", f"{GUARDS}/{guard['metadata']['name']}")

    def remove(self) -> None:
        """Removes all that were made."""
        for name in self._made:
            self._plane.request("DELETE", f"{GUARDS}/{name}")


@pytest.fixture(scope="module")
def crd(control_plane: ControlPlane) -> Object:
    """The CustomResourceDefinition, served."""
    if control_plane.find(CRD) is None:  # a change of it, even of an annotation, would stop the service for a moment
        control_plane.kubectl("create", "--filename", str(CRD_FILE))
    control_plane.kubectl("wait", "--for=condition=Established", "crd/poolguards.poolwarden.dev", "--timeout=30s")
    wait_for("PoolGuards to be served", lambda: control_plane.kubectl("get", "poolguards", check=False).returncode == 0)
    return control_plane.request("GET", CRD)


@pytest.fixture
def guards(control_plane: ControlPlane, crd: Object) -> Iterator[Guards]:  # noqa: ARG001 - needs it served
    """PoolGuards that go when the test ends."""
    guards = Guards(control_plane)
    yield guards
    guards.remove()


# --- The definition -----------------------------------------------------------------------------------------------


def test_the_definition_is_accepted(crd: Object) -> None:
    """The API server accepts names, schema and rules, and serves the kind."""
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


# --- What is accepted ---------------------------------------------------------------------------------------------


def test_a_guard_may_say_nothing_but_its_pool(guards: Guards) -> None:
    """A spec with only poolRef is stored as it is: absent fields stay absent, and no status appears."""
    guard = guards.make()
    assert guard["spec"] == {"poolRef": {"ipam": "spiderpool", "name": "default-v4"}}
    assert "status" not in guard


def test_a_namespace_of_null_is_kept(guards: Guards) -> None:
    """A cluster-scoped pool may be named with a namespace of null, as gc names it."""
    pool = {"ipam": "spiderpool", "namespace": None, "name": "default-v4"}
    assert guards.make(pool=pool)["spec"]["poolRef"] == pool


@pytest.mark.parametrize(
    "spec",
    [
        {"graceSeconds": 0, "cooldownSeconds": 0, "maxReleasesPerSweep": 0, "acknowledgedLeaks": 0},
        {"graceSeconds": 604800, "cooldownSeconds": 604800, "maxReleasePercent": 100},
        {"maxReleasePercent": 1},
        {"mode": "Off"},
        {"freeAddresses": {"low": 1, "target": 1, "high": 1}},
        {"freeAddresses": {"low": 5, "target": 20, "high": 50}},
        {"freeAddresses": {"low": 5}},
        {"retention": {"statefulSets": {"policy": "ReleaseAfter", "afterSeconds": 1}}},
        {"retention": {"statefulSets": {"policy": "ReleaseAlways"}}},
        {"retention": {}},
        {"keep": ["0.0.0.0", "255.255.255.255", "10.0.0.1-10.0.0.255"]},
        {"reserve": ["::", "1:2:3:4:5:6:7::", "FD00::1-fd00:0:0:0:0:0:0:ff"]},
        {"ignoreNamespaces": ["infra", "kube-system", "9"]},
    ],
    ids=json.dumps,
)
def test_a_valid_spec_is_stored_as_it_is(guards: Guards, spec: Object) -> None:
    """Values up to and including the bounds are accepted, and neither changed nor added to."""
    stored = guards.make(spec)["spec"]
    del stored["poolRef"]
    assert stored == spec


@pytest.mark.parametrize("ipam", ["whereabouts", "neon"])
def test_a_namespaced_pool_can_be_guarded(guards: Guards, ipam: str) -> None:
    """A pool of an IPAM whose pools are namespaced is named with its namespace."""
    pool = {"ipam": ipam, "namespace": "kube-system", "name": "10.55.0.0-24"}
    assert guards.make(pool=pool)["spec"]["poolRef"] == pool


# --- What is refused ----------------------------------------------------------------------------------------------

LOW = "low must be less than or equal to target"
HIGH = "high must be greater than or equal to target"
RANGE = "must be an IP address without mask, or first-last of one family"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"freeAddresses": {"low": 21, "target": 20, "high": 50}}, LOW),
        ({"freeAddresses": {"low": 21, "target": 20}}, LOW),
        ({"freeAddresses": {"low": 5, "target": 20, "high": 19}}, HIGH),
        ({"freeAddresses": {"target": 20, "high": 19}}, HIGH),
        ({"freeAddresses": {"low": 20, "high": 19}}, "low must be less than or equal to high"),
        ({"freeAddresses": {"low": 0}}, "spec.freeAddresses.low in body should be greater than or equal to 1"),
        ({"retention": {"statefulSets": {"policy": "ReleaseAfter"}}}, "afterSeconds is required when policy is"),
        (
            {"retention": {"statefulSets": {"policy": "WhileEntitled", "afterSeconds": 60}}},
            "afterSeconds is allowed only when policy is ReleaseAfter",
        ),
        ({"retention": {"statefulSets": {"afterSeconds": 60}}}, "afterSeconds is allowed only when policy is"),
        (
            {"retention": {"statefulSets": {"policy": "ReleaseAfter", "afterSeconds": 0}}},
            "afterSeconds in body should be greater than or equal to 1",
        ),
        ({"mode": "Relase"}, 'Unsupported value: "Relase": supported values: "Off", "Observe", "Release"'),
        ({"mode": False}, "spec.mode in body must be of type string"),  # YAML without quotes: mode: Off
        ({"finishedPods": "Drop"}, 'supported values: "Keep", "Release"'),
        ({"nodeEvidence": "Never"}, 'supported values: "Required", "Ignore"'),
        ({"graceSeconds": -1}, "spec.graceSeconds in body should be greater than or equal to 0"),
        ({"graceSeconds": 604801}, "spec.graceSeconds in body should be less than or equal to 604800"),
        ({"cooldownSeconds": -1}, "spec.cooldownSeconds in body should be greater than or equal to 0"),
        ({"cooldownSeconds": 604801}, "spec.cooldownSeconds in body should be less than or equal to 604800"),
        ({"maxReleasesPerSweep": -1}, "spec.maxReleasesPerSweep in body should be greater than or equal to 0"),
        ({"maxReleasePercent": 0}, "spec.maxReleasePercent in body should be greater than or equal to 1"),
        ({"maxReleasePercent": 101}, "spec.maxReleasePercent in body should be less than or equal to 100"),
        ({"acknowledgedLeaks": -1}, "spec.acknowledgedLeaks in body should be greater than or equal to 0"),
        ({"keep": ["10.0.0.1", "10.0.0.1"]}, 'spec.keep[1]: Duplicate value: "10.0.0.1"'),
        ({"ignoreNamespaces": ["Infra"]}, "spec.ignoreNamespaces[0] in body should match"),
        ({"graceSecond": 600}, 'unknown field "spec.graceSecond"'),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_an_invalid_spec_is_refused(guards: Guards, spec: Object, message: str) -> None:
    """What cannot be meant is refused where it is written, with a message that says what is allowed."""
    with pytest.raises(ApiError) as refused:
        guards.make(spec)
    assert message in str(refused.value)


@pytest.mark.parametrize("field", ["keep", "reserve"])
@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.0/24",
        "10.0.0.256",
        "10.0.0",
        "10.0.0.1.2",
        "010.0.0.1",
        " 10.0.0.1",
        "10.0.0.1-",
        "10.0.0.1-10.0.0.2-10.0.0.3",
        "10.0.0.1-fd00::1",
        "fd00::1-10.0.0.1",
        "fd00::1/64",
        "fe80::1%eth0",
        "fd00",
        ":",
        "web-0",
    ],
)
def test_what_is_no_range_is_refused(guards: Guards, field: str, text: str) -> None:
    """A keep or reserve entry is one address or first-last of one family, so that no slip leaves an address unkept."""
    with pytest.raises(ApiError) as refused:
        guards.make({field: [text]})
    assert f'spec.{field}[0]: Invalid value: "{text}": {RANGE}' in str(refused.value)


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ({"ipam": "calico", "name": "x"}, 'Unsupported value: "calico": supported values: "spiderpool"'),
        ({"ipam": "spiderpool"}, "spec.poolRef.name: Required value"),
        ({"ipam": "spiderpool", "name": "Default"}, "spec.poolRef.name in body should match"),
        ({"ipam": "spiderpool", "namespace": "default", "name": "x"}, "namespace must be null or absent"),
        ({"ipam": "terway", "namespace": "default", "name": "x"}, "namespace must be null or absent"),
        ({"ipam": "whereabouts", "name": "x"}, "namespace is required: the pools of this IPAM are namespaced"),
        ({"ipam": "neon", "namespace": None, "name": "x"}, "namespace is required: the pools of this IPAM are"),
        ({"ipam": "neon", "namespace": "", "name": "x"}, "spec.poolRef.namespace in body should be at least 1 chars"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_reference_that_no_pool_can_have_is_refused(guards: Guards, pool: Object, message: str) -> None:
    """A reference is one that a pool of that IPAM can have, for two spellings of one pool would be two guards."""
    with pytest.raises(ApiError) as refused:
        guards.make(pool=pool)
    assert message in str(refused.value)


def test_a_guard_without_spec_is_refused(control_plane: ControlPlane, guards: Guards) -> None:  # noqa: ARG001
    """A guard names its pool."""
    guard = {"apiVersion": "poolwarden.dev/v1alpha1", "kind": "PoolGuard", "metadata": {"name": "spiderpool.x"}}
    with pytest.raises(ApiError, match="spec: Required value"):
        control_plane.request("POST", GUARDS, guard)


# --- What never changes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ipam": "neon"}, "poolRef is immutable"),
        ({"name": "other"}, "poolRef is immutable"),
        ({"namespace": "other"}, "poolRef is immutable"),
        ({"namespace": None}, "namespace is required"),
        ({"ipam": "spiderpool", "namespace": None}, "poolRef is immutable"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_the_pool_of_a_guard_never_changes(guards: Guards, change: Object, message: str) -> None:
    """A guard stays with its pool, whose ledger it holds."""
    guard = guards.make(pool={"ipam": "whereabouts", "namespace": "kube-system", "name": "blue"})
    with pytest.raises(ApiError, match=message):
        guards.patch(guard, {"spec": {"poolRef": change}})


def test_a_cluster_scoped_pool_gets_no_namespace(guards: Guards) -> None:
    """A guard of a cluster-scoped pool cannot be given a namespace afterwards."""
    guard = guards.make(pool={"ipam": "spiderpool", "namespace": None, "name": "blue"})
    with pytest.raises(ApiError, match="namespace must be null or absent"):
        guards.patch(guard, {"spec": {"poolRef": {"namespace": "default"}}})


def test_settings_may_change(guards: Guards) -> None:
    """Everything but poolRef may be changed at any time, and taken back."""
    guard = guards.make({"mode": "Observe", "keep": ["10.0.0.1"]})
    changed = guards.patch(guard, {"spec": {"mode": "Release", "keep": None}})
    assert changed["spec"] == {"poolRef": guard["spec"]["poolRef"], "mode": "Release"}


def test_kubectl_apply_takes_over_a_guard_of_gc(control_plane: ControlPlane, guards: Guards) -> None:
    """`kubectl apply` can set a guard that gc made, although it turns gc's namespace of null into an absent one."""
    guard = guards.make(pool={"ipam": "spiderpool", "namespace": None, "name": "default-v4"})
    name = guard["metadata"]["name"]
    wanted = guard | {"metadata": {"name": name}, "spec": guard["spec"] | {"mode": "Release"}}
    control_plane.kubectl("apply", "--filename", "-", input=json.dumps(wanted))
    stored = control_plane.request("GET", f"{GUARDS}/{name}")
    assert stored["spec"] == {"poolRef": {"ipam": "spiderpool", "name": "default-v4"}, "mode": "Release"}


# --- Status -------------------------------------------------------------------------------------------------------


def test_every_field_is_stored_exactly(guards: Guards) -> None:
    """Every field of spec and status, the counts of a /64 included, is read back as written."""
    full = yaml.safe_load((HERE / "full-guard.yaml").read_text())
    pool = full["spec"].pop("poolRef")
    stored = guards.set_status(guards.make(full["spec"], pool=pool), full["status"])
    assert stored["spec"] == full["spec"] | {"poolRef": pool}
    assert stored["status"] == full["status"]


def test_null_is_accepted_for_what_is_not_known(guards: Guards) -> None:
    """A status may say null for a count, date, owner, node or address; a merge patch stores it as an absent field."""
    entry = {
        "recordDigest": "0f0f",
        "reason": "NodeUnreachable",
        "firstSeen": "2026-01-31T12:00:00Z",
        "phase": "Sighted",
    }
    unknown = dict.fromkeys(("address", "owner", "node", "lastCounted", "dueAt"))
    release = {"address": "10.0.0.8", "record": "{}", "recordDigest": "1b1b", "reason": "OwnerGone"}
    release["releasedAt"] = "2026-01-31T12:00:00Z"
    status = {
        "observedAt": None,
        "addresses": {"size": "254", "allocated": None, "free": None},
        "ledger": [entry | unknown],
        "released": [release | {"owner": None, "restoredAt": None}],
    }
    stored = guards.set_status(guards.make(), status)["status"]
    assert stored == {"addresses": {"size": "254"}, "ledger": [entry], "released": [release]}


@pytest.mark.parametrize("field", ["address", "owner", "node", "lastCounted", "dueAt"])
def test_null_may_be_stored(control_plane: ControlPlane, guards: Guards, field: str) -> None:
    """A null that is written otherwise than by a merge patch is kept in the ledger, so gc must read it."""
    guard = guards.make()
    entry = {"recordDigest": "0f0f", "reason": "OwnerGone", "firstSeen": "2026-01-31T12:00:00Z", "phase": "Sighted"}
    guard["status"] = {"ledger": [entry | {field: None}]}
    stored = control_plane.request("PUT", f"{GUARDS}/{guard['metadata']['name']}/status", guard)
    assert stored["status"]["ledger"] == [entry | {field: None}]


def test_status_is_written_apart(guards: Guards) -> None:
    """The status comes in by its own door alone, and moves no generation: that counts what operators change."""
    guard = guards.make(status={"poolUID": "x"})
    assert "status" not in guard
    stored = guards.set_status(guard, {"poolUID": "y"})
    assert stored["status"] == {"poolUID": "y"}
    assert stored["metadata"]["generation"] == 1
    guards.patch(guard, {"spec": {"mode": "Release"}}, subresource="/status")
    assert "mode" not in guards.set_status(guard, {})["spec"]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"addresses": {"size": 254}}, "addresses.size in body must be of type string"),
        ({"addresses": {"free": "-1"}}, "addresses.free in body should match '^[0-9]+$'"),
        ({"addresses": {"free": ""}}, "addresses.free in body should match '^[0-9]+$'"),
        ({"observedAt": "yesterday"}, "observedAt in body must be of type date-time"),
        ({"findings": {"leaked": -1}}, "findings.leaked in body should be greater than or equal to 0"),
        ({"nodesGone": [{"name": "worker-1"}]}, "status.nodesGone[0].since: Required value"),
        ({"extended": ["10.0.0.1"] * 1001}, "status.extended: Too many: 1001: must have at most 1000 items"),
        ({"conditions": [{"type": "Braked", "status": "True"}]}, "status.conditions[0].reason: Required value"),
        ({"ledgerOmited": 1}, 'unknown field "status.ledgerOmited"'),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_invalid_status_is_refused(guards: Guards, status: Object, message: str) -> None:
    """A status that gc could not read back is refused when it is written."""
    guard = guards.make()
    with pytest.raises(ApiError) as refused:
        guards.set_status(guard, status)
    assert message in str(refused.value)


def test_a_condition_stands_once(guards: Guards) -> None:
    """There is one condition of a type."""
    guard = guards.make()
    condition = {"type": "Braked", "status": "True", "reason": "A", "message": ""}
    condition["lastTransitionTime"] = "2026-01-31T11:00:00Z"
    with pytest.raises(ApiError, match="Duplicate value"):
        guards.set_status(guard, {"conditions": [condition, condition]})


@pytest.mark.parametrize(("entries", "fits"), [(1000, True), (1001, False)])
def test_the_ledger_has_room_for_more_than_it_keeps(guards: Guards, entries: int, fits: bool) -> None:  # noqa: FBT001
    """The ledger takes twice the 500 entries that gc keeps, since one that is Releasing is never dropped."""
    entry = yaml.safe_load((HERE / "full-guard.yaml").read_text())["status"]["ledger"][0]
    guard = guards.make()
    if fits:
        stored = guards.set_status(guard, {"ledger": [entry] * entries})
        assert len(stored["status"]["ledger"]) == entries
    else:
        with pytest.raises(ApiError, match="must have at most 1000 items"):
            guards.set_status(guard, {"ledger": [entry] * entries})


# --- kubectl get --------------------------------------------------------------------------------------------------


def test_the_columns_come_in_order(control_plane: ControlPlane, guards: Guards) -> None:
    """`kubectl get pg` shows the pool, its counts, its leaks and its mode, in this order."""
    guard = guards.make({"mode": "Release"}, pool={"ipam": "spiderpool", "name": "blue"})
    counts = {"size": "254", "allocated": "200", "unknown": "3", "cooldown": "1", "free": "50"}
    guards.set_status(guard, {"addresses": counts, "findings": {"leaked": 4}})
    name = guard["metadata"]["name"]
    header, row = control_plane.kubectl("get", "pg", name).stdout.splitlines()
    assert header.split() == COLUMNS
    assert row.split()[:-1] == [name, "spiderpool", "blue", "254", "200", "3", "1", "50", "4", "Release"]


def test_the_wide_columns_follow(control_plane: ControlPlane, guards: Guards) -> None:
    """`kubectl get pg -o wide` adds where the pool is, what else was found, and when."""
    guard = guards.make(pool={"ipam": "neon", "namespace": "vms", "name": "blue"})
    braked = {"type": "Braked", "status": "True", "reason": "A", "message": ""}
    braked["lastTransitionTime"] = "2026-01-31T11:00:00Z"
    findings = {"conflict": 1, "drift": 2}
    guards.set_status(guard, {"findings": findings, "conditions": [braked], "observedAt": "2026-01-31T11:00:00Z"})
    header, row = control_plane.kubectl("get", "pg", guard["metadata"]["name"], "--output=wide").stdout.splitlines()
    assert header.split() == [*COLUMNS, "NAMESPACE", "CONFLICT", "DRIFT", "BRAKED", "OBSERVED"]
    assert row.split()[-5:-1] == ["vms", "1", "2", "True"]
