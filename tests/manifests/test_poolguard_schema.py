"""What can be told about the CustomResourceDefinition without an API server: it says what the design and the program say."""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from poolwarden.gc.guard import GuardSpec, GuardStatus
from poolwarden.gc.ledger import Phase
from poolwarden.gc.policy import Mode, Policy, RetentionRule
from poolwarden.ipam.pool_guard import POOL_GUARDS
from poolwarden.ipam.registry import BACKENDS

HERE = Path(__file__).parent
CRD_FILE = HERE.parents[1] / "manifests" / "crd" / "poolguards.yaml"
CRD: dict[str, Any] = yaml.safe_load(CRD_FILE.read_text())
VERSION: dict[str, Any] = CRD["spec"]["versions"][0]
SCHEMA: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]
SPEC: dict[str, Any] = SCHEMA["properties"]["spec"]["properties"]
STATUS: dict[str, Any] = SCHEMA["properties"]["status"]["properties"]
DESIGN: dict[str, Any] = yaml.safe_load((HERE / "design-example.yaml").read_text())
FULL: dict[str, Any] = yaml.safe_load((HERE / "full-guard.yaml").read_text())


def paths_of(value: object, path: str = "") -> Iterator[str]:
    """The fields that an object has: `spec.keep`, `status.ledger[].address`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            field = f"{path}.{key}".removeprefix(".")
            yield field
            yield from paths_of(inner, field)
    elif isinstance(value, list):
        for item in value:
            yield from paths_of(item, f"{path}[]")


def schemas_under(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields that a schema knows, each with its own schema."""
    for name, inner in schema.get("properties", {}).items():
        field = f"{path}.{name}".removeprefix(".")
        yield field, inner
        yield from schemas_under(inner, field)
    if "items" in schema:
        yield from schemas_under(schema["items"], f"{path}[]")


def fields_of(kind: type[msgspec.Struct], path: str) -> Iterator[str]:
    """The fields that the program reads and writes, by the names that they have in JSON."""

    def walk(info: msgspec.inspect.Type, path: str) -> Iterator[str]:
        match info:
            case msgspec.inspect.StructType():
                for field in info.fields:
                    yield f"{path}.{field.encode_name}"
                    yield from walk(field.type, f"{path}.{field.encode_name}")
            case msgspec.inspect.UnionType():
                for choice in info.types:
                    yield from walk(choice, path)
            case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
                yield from walk(info.item_type, f"{path}[]")
            case _:
                pass

    yield from walk(msgspec.inspect.type_info(kind), path)


FIELDS = dict(schemas_under(SCHEMA))
OURS = FIELDS.keys() - {"metadata"}  # of the metadata nothing may be said: they are the API server's


def test_the_design_is_in_the_schema() -> None:
    """Every field of DESIGN section 8 is in the schema, for the API server drops in silence what is not."""
    designed = {path for path in paths_of(DESIGN) if not path.startswith("metadata.") and not path.endswith("…")}
    assert designed - FIELDS.keys() == set()


def test_the_program_is_in_the_schema() -> None:
    """Every field that gc reads or writes is in the schema: a ledger that loses one loses its clock."""
    assert {*fields_of(GuardSpec, "spec"), *fields_of(GuardStatus, "status")} - FIELDS.keys() == set()


def test_the_full_guard_is_full() -> None:
    """The guard that the API server's tests store has every field of the schema, so that none goes unproven."""
    assert {path for path in paths_of(FULL) if not path.startswith("metadata")} == OURS


@pytest.mark.parametrize("word", DESIGN["status"]["conditions"])
def test_a_condition_of_the_design_is_described(word: str) -> None:
    """Every condition of DESIGN section 8 is explained where `kubectl explain` looks it up."""
    assert f"{word} (" in STATUS["conditions"]["description"]


def test_every_field_is_described() -> None:
    """Every field says in a sentence what it means."""
    assert [path for path in OURS if not FIELDS[path].get("description", "").endswith(".")] == []


def test_no_field_has_a_default() -> None:
    """No field is filled in by the API server: an absent one takes the default of the program that reads it."""
    assert [path for path in FIELDS if "default" in FIELDS[path]] == []


def test_every_list_is_bounded() -> None:
    """Every list has a longest length, without which the rules on its items would cost too much to be allowed."""
    assert [path for path in FIELDS if FIELDS[path]["type"] == "array" and "maxItems" not in FIELDS[path]] == []


def test_every_word_is_a_string_in_yaml() -> None:
    """No word of an enum is one that YAML turns into something else, as it turns Off into false."""
    words = [word for schema in FIELDS.values() for word in schema.get("enum", ())]
    assert [word for word in words if not isinstance(word, str)] == []


def test_the_modes_are_the_programs() -> None:
    """A mode is allowed if and only if gc knows it."""
    assert set(SPEC["mode"]["enum"]) == {mode.value for mode in Mode}


def test_the_retention_policies_are_the_programs() -> None:
    """A retention policy is allowed if and only if gc knows it."""
    allowed = FIELDS["spec.retention.statefulSets.policy"]["enum"]
    assert set(allowed) == {rule.value for rule in RetentionRule}


def test_the_phases_are_the_programs() -> None:
    """A phase can be stored if and only if gc knows it."""
    assert set(FIELDS["status.ledger[].phase"]["enum"]) == {phase.value for phase in Phase}


@pytest.mark.parametrize("ipam", sorted(BACKENDS))
def test_a_known_ipam_can_be_guarded(ipam: str) -> None:
    """A pool of every IPAM in the registry can have a guard."""
    assert ipam in SPEC["poolRef"]["properties"]["ipam"]["enum"]


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("graceSeconds", str(Policy().grace)),
        ("cooldownSeconds", str(Policy().cooldown)),
        ("maxReleasesPerSweep", str(Policy().max_releases)),
        ("maxReleasePercent", str(Policy().max_release_percent)),
        ("acknowledgedLeaks", str(Policy().acknowledged_leaks)),
        ("finishedPods", "Release" if Policy().release_finished_pods else "Keep"),
        ("nodeEvidence", "Required" if Policy().node_evidence_required else "Ignore"),
        ("retention.statefulSets.policy", Policy().retention.rule.value),
    ],
)
def test_a_description_names_the_programs_default(path: str, default: str) -> None:
    """What `kubectl explain` says of an absent setting is what gc takes for it."""
    assert f" Absent: {default}" in FIELDS[f"spec.{path}"]["description"]


def test_the_kind_is_the_programs() -> None:
    """Group, version, plural, kind and scope are those under which gc asks for guards."""
    names, scope = CRD["spec"]["names"], CRD["spec"]["scope"]
    served = (CRD["spec"]["group"], VERSION["name"], names["plural"], names["kind"], scope == "Namespaced")
    kind = POOL_GUARDS
    assert served == (kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)


def test_the_package_carries_the_definition() -> None:
    """The installed program finds the definition beside its code, the very text that kubectl applies."""
    assert (files("poolwarden.gc") / "poolguards.yaml").read_bytes() == CRD_FILE.read_bytes()
