"""States made by the real Spiderpool, judged as they are known to be by construction."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from factories import words
from poolwarden.cluster.files import Files
from poolwarden.cluster.inputs import read
from poolwarden.gc.judge import judge
from poolwarden.gc.policy import Policies
from poolwarden.gc.read import read_snapshot, unread
from poolwarden.gc.snapshot import Memory
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.verdict import Action, Finding

DUMPS = sorted(path.parent for path in Path(__file__).parent.glob("*/truth.json"))
WHEN_TAKEN = {
    "live": "InUse OwnerLive none",
    "reserved": "InUse OwnerLive none",
    "pending": "InUse OwnerLive none",
    "kept-for-restart": "Retained StatefulSetEntitled none",
    "surplus": "Leaked SurplusForOwner none",
    "leaked": "Leaked OwnerGone release",
}


def judged(dump: Path, *, after: timedelta = timedelta()) -> list[Finding]:
    """The findings of a dump, that long after the newest moment which it tells of."""
    text = (dump / "cluster.yaml").read_text(encoding="utf-8")
    newest = max(re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text))
    cluster = Files(read([str(dump / "cluster.yaml")]), assume_complete=True)
    snapshot = read_snapshot(cluster, BACKENDS.values(), Memory())
    assert unread(snapshot) == ()
    return judge(snapshot, Policies(), datetime.fromisoformat(newest).astimezone(UTC) + after)


def truths(dump: Path) -> dict[tuple[str, str], str]:
    """What each record is, by pool and address."""
    pools = json.loads((dump / "truth.json").read_text(encoding="utf-8"))
    return {(pool, address): record["truth"] for pool, records in pools.items() for address, record in records.items()}


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.name)
def test_each_record_is_judged_as_it_is(dump: Path) -> None:
    """At the moment of the dump: every record, no other, and each by its class."""
    found = {(item.pool.name, item.address): words(item) for item in judged(dump) if item.record_digest}
    assert found == {place: WHEN_TAKEN[truth] for place, truth in truths(dump).items()}


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.name)
def test_time_alone_frees_nothing(dump: Path) -> None:
    """A day later, nothing having changed, exactly the same records are to be released."""
    releases = {
        (item.pool.name, item.address)
        for item in judged(dump, after=timedelta(days=1))
        if item.action is Action.RELEASE
    }
    assert releases == {place for place, truth in truths(dump).items() if truth == "leaked"}


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.name)
def test_nothing_else_is_said_but_of_missing_endpoints(dump: Path) -> None:
    """Counts, ranges and endpoints of the real Spiderpool are sound; a pod that never got its NICs has no endpoint."""
    beside = {str(item.reason) for item in judged(dump) if not item.record_digest}
    assert beside <= {"EndpointMissing"}


def test_there_are_dumps() -> None:
    """The folders are where they are looked for."""
    assert len(DUMPS) == 11
