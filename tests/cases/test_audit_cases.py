"""Clusters, and what must and must not be found in them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from poolwarden.cluster.files import Files
from poolwarden.cluster.inputs import read
from poolwarden.gc.judge import judge
from poolwarden.gc.policy import Policies, Policy
from poolwarden.gc.read import read_snapshot
from poolwarden.gc.snapshot import Memory, Snapshot
from poolwarden.gc.states import States, count
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.verdict import Finding

CASES = sorted(path.parent for path in Path(__file__).parent.glob("audit/*/expect.json"))
GRACES = {"--grace 60s": 60}


class Case:
    """One folder, judged."""

    def __init__(self, folder: Path) -> None:
        self.expect: dict[str, Any] = json.loads((folder / "expect.json").read_text(encoding="utf-8"))
        arguments = " ".join(self.expect["args"])
        grace = next((seconds for text, seconds in GRACES.items() if text in arguments), 600)
        complete = "--assume-complete" in arguments
        cluster = Files(read([str(folder / "cluster.yaml")]), assume_complete=complete)
        self.snapshot: Snapshot = read_snapshot(cluster, BACKENDS.values(), Memory())
        now = datetime.fromisoformat(self.expect["now"]).astimezone(UTC)
        everything = judge(self.snapshot, Policies(Policy(grace=grace)), now)
        self.findings = [item for item in everything if item.verdict not in {"InUse", "Retained"}]
        self.everything = everything

    def matching(self, pattern: dict[str, Any]) -> list[Finding]:
        """The findings that a pattern of expect.json describes."""
        return [item for item in self.findings if all(_has(item, key, pattern[key]) for key in pattern if key in KEYS)]

    def states(self) -> Iterator[tuple[str, dict[str, int | None]]]:
        """The states of each pool."""
        for inventory in self.snapshot.inventories:
            for pool in inventory.pools:
                counted = count(pool, [item for item in self.everything if item.pool == pool.ref], frozenset())
                known = isinstance(counted, States)
                states = {key: getattr(counted, key) if known else None for key in ("allocated", "unknown", "free")}
                yield pool.ref.name, {"size": counted.size, **states, "cooldown": 0 if known else None}


KEYS = ("pool", "address", "verdict", "reason", "action")


def _has(item: Finding, key: str, wanted: Any) -> bool:
    value = item.pool.name if key == "pool" else getattr(item, key)
    return value in wanted if isinstance(wanted, list) else bool(value == wanted)


@pytest.fixture(params=CASES, ids=lambda folder: folder.name)
def case(request: pytest.FixtureRequest) -> Case:
    """Each case."""
    return Case(request.param)


def test_what_must_be_found(case: Case) -> None:
    """Each pattern matches a finding, and the findings of its address name what it mentions."""
    for pattern in case.expect["must"]:
        found = case.matching(pattern)
        assert found, pattern
        text = " ".join(str(item) for item in case.findings if item.address in {match.address for match in found})
        assert [word for word in pattern.get("mentions", ()) if word not in text] == []


def test_what_is_released(case: Case) -> None:
    """Exactly these, and at most what is tolerated besides."""
    released = {f"{item.pool.name}/{item.address}" for item in case.findings if item.action == "release"}
    assert released - set(case.expect.get("mayRelease", ())) == set(case.expect["release"])


def test_what_must_not_be_said(case: Case) -> None:
    """No finding matches a forbidden pattern."""
    assert [item for pattern in case.expect["forbid"] for item in case.matching(pattern)] == []


def test_how_addresses_are_counted(case: Case) -> None:
    """Each pool's states are those of the case, and sum to its size."""
    states = dict(case.states())
    for name, wanted in case.expect.get("pools", {}).items():
        assert states[name] | wanted == states[name]
    for counted in states.values():
        if counted["free"] is not None:
            assert counted["size"] == sum(counted[key] or 0 for key in ("allocated", "unknown", "cooldown", "free"))


def test_there_are_cases() -> None:
    """The folders are where they are looked for."""
    assert len(CASES) == 27
