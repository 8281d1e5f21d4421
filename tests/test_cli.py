"""The command line as operators meet it: exit statuses, the JSON contract, and one clear line for whatever is wrong."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from msgspec import Struct

from factories import NOW, Object, blue, claim, digest, endpoint, green, nad, node, pod, pool, stamp, stateful_set
from poolwarden.cli import main

A, B, C, D = "10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13"
LEAK = claim("app")
LIVE = pod("live", ips=[B])
LIVE_NIC = endpoint(LIVE, {"eth0": f"{B}@blue"})
HEALTHY = (blue({B: LIVE}), LIVE, LIVE_NIC, node(), nad("eth0"))
LEAKING = (blue({A: LEAK, B: LIVE}), LIVE, LIVE_NIC, node(), nad("eth0"))


class Done(Struct, frozen=True):
    """What a command left."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of standard error."""
        return self.err.splitlines()


class Program:
    """Runs commands in this process, over objects in a file."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capture = capture

    def dump(self, *objects: Object, name: str = "dump.json") -> str:
        """A file with these objects."""
        path = self.folder / name
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}), encoding="utf-8")
        return str(path)

    def run(self, *arguments: str) -> Done:
        """One command, as the script runs it."""
        try:
            status = main(arguments)
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else 99
        told = self.capture.readouterr()
        assert "Traceback" not in told.err + told.out
        return Done(status, told.out, told.err)

    def over(self, objects: Sequence[Object], *arguments: str, now: str = stamp(NOW), complete: bool = True) -> Done:
        """One command over these objects."""
        given = ["-f", self.dump(*objects), "--now", now, *(["--assume-complete"] if complete else [])]
        return self.run(*arguments, *given)


@pytest.fixture
def program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Program]:
    """The program, with a folder of its own."""
    yield Program(tmp_path, capsys)
    structlog.reset_defaults()  # its logger holds this test's standard error


# --- audit ------------------------------------------------------------------------------------------------------------


def test_audit_without_findings(program: Program) -> None:
    """Nothing to report is 0, on an empty standard error."""
    done = program.over(HEALTHY, "audit")
    assert (done.status, done.err) == (0, "")
    assert "Nothing to report." in done.out


def test_audit_with_findings(program: Program) -> None:
    """A finding is 1, and the table tells pool, address, verdict, reason, action and message."""
    done = program.over(LEAKING, "audit")
    assert (done.status, done.err) == (1, "")
    assert "blue 10.0.0.10  Leaked · OwnerGone  -> release" in done.out
    assert "no pod of that UID exists" in done.out
    assert "1 address would be released." in done.out


def test_audit_of_incomplete_evidence(program: Program) -> None:
    """What was not given is 2, and the command that would complete the dump is printed."""
    done = program.over((blue({A: LEAK}),), "audit", "-o", "json", complete=False)
    assert done.status == 2
    report = json.loads(done.out)
    assert report["complete"] is False
    assert [item["reason"] for item in report["findings"]] == ["EvidenceIncomplete"]
    assert "kubectl get pods" in done.err


def test_retained_and_in_use_are_no_findings(program: Program) -> None:
    """Records that are simply InUse or Retained are not reported."""
    objects = (blue({B: LIVE, A: claim("db-0")}), LIVE, LIVE_NIC, stateful_set("db"), node(), nad("eth0"))
    assert program.over(objects, "audit").status == 0


POOL_FIELDS = ["ipam", "namespace", "name", "size", "allocated", "unknown", "cooldown", "free", "findings"]
FINDING_FIELDS = [
    "ipam",
    "poolNamespace",
    "pool",
    "address",
    "interface",
    "owner",
    "verdict",
    "reason",
    "message",
    "firstSeen",
    "action",
]


def test_json_contract(program: Program) -> None:
    """Fields, their order, nulls and values are those of DESIGN §6."""
    done = program.over(LEAKING, "audit", "-o", "json")
    report = json.loads(done.out)
    assert list(report) == ["apiVersion", "kind", "generatedAt", "complete", "pools", "findings"]
    assert report["apiVersion"] == "poolwarden.dev/v1alpha1"
    assert report["kind"] == "AuditReport"
    assert report["generatedAt"] == "2026-01-10T12:00:00Z"
    assert report["complete"] is True
    (told,) = report["pools"]
    assert list(told) == POOL_FIELDS
    assert told == {
        "ipam": "spiderpool",
        "namespace": None,
        "name": "blue",
        "size": 21,
        "allocated": 2,
        "unknown": 0,
        "cooldown": 0,
        "free": 19,
        "findings": 1,
    }
    (finding,) = report["findings"]
    assert list(finding) == FINDING_FIELDS
    assert list(finding["owner"]) == ["kind", "namespace", "name", "uid"]
    assert finding == {
        "ipam": "spiderpool",
        "poolNamespace": None,
        "pool": "blue",
        "address": A,
        "interface": None,
        "owner": {"kind": "Pod", "namespace": "default", "name": "app", "uid": "app-uid"},
        "verdict": "Leaked",
        "reason": "OwnerGone",
        "message": finding["message"],
        "firstSeen": None,
        "action": "release",
    }


def test_order_of_findings(program: Program) -> None:
    """By pool, then address as a number, null first."""
    records = {"10.0.0.9": claim("x"), "10.0.0.20": claim("y"), "10.0.0.100": claim("z"), "here": claim("w")}
    objects = (
        pool("blue", "10.0.0.1-10.0.0.200", records),
        pool("amber", "fd00::1-fd00::ffff", {"fd00::10": claim("x"), "fd00::9": claim("y")}),
        LIVE,
        node(),
    )
    report = json.loads(program.over(objects, "audit", "-o", "json").out)
    told = [(item["pool"], item["address"]) for item in report["findings"]]
    assert told == [
        ("amber", "fd00::9"),
        ("amber", "fd00::10"),
        ("blue", None),
        ("blue", "10.0.0.9"),
        ("blue", "10.0.0.20"),
        ("blue", "10.0.0.100"),
    ]


def test_records_that_cannot_be_read(program: Program) -> None:
    """Then the states are null, the size stands, and the report is not complete."""
    done = program.over((blue("{"), LIVE, node()), "audit", "-o", "json")
    report = json.loads(done.out)
    (told,) = report["pools"]
    assert [told[key] for key in POOL_FIELDS[3:8]] == [21, None, None, None, None]
    assert (done.status, report["complete"]) == (2, False)
    assert "blue" in done.err


def test_owner_that_cannot_be_parsed(program: Program) -> None:
    """It is null; a record of no UID has a null UID."""
    records = {A: {"pod": "no-slash", "podUid": "x"}, B: {"pod": "default/app"}}
    report = json.loads(program.over((blue(records), LIVE, node()), "audit", "-o", "json").out)
    owners = {item["address"]: item["owner"] for item in report["findings"]}
    assert owners[A] is None
    assert owners[B] == {"kind": "Pod", "namespace": "default", "name": "app", "uid": None}


def test_addresses_are_canonical(program: Program) -> None:
    """Whatever the spelling of a key, the report has one form, without mask."""
    six = pool("six", "fd00::1-fd00::ff", {"fd00:0:0::00A": LEAK})
    report = json.loads(program.over((six, LIVE, node()), "audit", "-o", "json").out)
    assert "fd00::a" in [item["address"] for item in report["findings"]]


def test_yaml_is_the_same_report(program: Program) -> None:
    """`-o yaml` says what `-o json` says, in the same order."""
    as_json = json.loads(program.over(LEAKING, "audit", "-o", "json").out)
    text = program.over(LEAKING, "audit", "-o", "yaml")
    as_yaml = yaml.safe_load(text.out)
    assert as_yaml == as_json
    assert list(as_yaml["findings"][0]) == FINDING_FIELDS
    assert text.status == 1


def test_first_seen_comes_from_the_ledger(program: Program) -> None:
    """With the PoolGuard of an earlier sweep, firstSeen is its first sighting, and cooldown is counted."""
    out = program.folder / "swept.json"
    assert program.over(LEAKING, "gc", "--write", str(out)).status == 0
    assert program.run("gc", "-f", str(out), "--write", str(out), "--now", "2026-01-10T12:11:00Z", "--assume-complete").status == 0  # fmt: skip
    done = program.run("audit", "-f", str(out), "-o", "json", "--now", "2026-01-10T12:12:00Z", "--assume-complete")
    report = json.loads(done.out)
    assert [item["firstSeen"] for item in report["findings"]] == ["2026-01-10T12:00:00Z"]
    assert (report["pools"][0]["cooldown"], report["pools"][0]["allocated"]) == (1, 1)


def test_only_one_pool(program: Program) -> None:
    """`--pool` limits pools and findings, and the exit status with them."""
    objects = (*LEAKING, green({"10.0.1.10": LIVE}))
    report = json.loads(program.over(objects, "audit", "-o", "json", "--pool", "green").out)
    assert [item["name"] for item in report["pools"]] == ["green"]
    assert {item["pool"] for item in report["findings"]} <= {"green"}
    both = json.loads(program.over(objects, "audit", "-o", "json", "--pool", "green", "--pool", "blue").out)
    assert [item["name"] for item in both["pools"]] == ["blue", "green"]


def test_grace_decides_on_finished_pods(program: Program) -> None:
    """`--grace` is as gc's: a pod that ended within it is in use still."""
    job = pod("job", phase="Succeeded", restart="Never")
    objects = (blue({A: job, B: LIVE}), job, LIVE, LIVE_NIC, node())
    assert "OwnerFinished" in program.over(objects, "audit", "--grace", "10m").out
    assert "OwnerFinished" not in program.over(objects, "audit", "--grace", "2h").out


def test_audit_writes_nothing(program: Program) -> None:
    """The dump is as it was."""
    path = Path(program.dump(*LEAKING))
    before = path.read_bytes()
    program.run("audit", "-f", str(path), "--assume-complete")
    assert path.read_bytes() == before
    assert [item.name for item in program.folder.iterdir()] == ["dump.json"]


def test_standard_input(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-f -` reads what kubectl pipes."""
    text = Path(program.dump(*LEAKING)).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert program.run("audit", "-f", "-", "--assume-complete", "--now", stamp(NOW)).status == 1


def test_folder_and_several_files(program: Program) -> None:
    """A folder is read recursively; one -f takes several files, and -f may be repeated."""
    (program.folder / "deep").mkdir()
    first = program.dump(blue({A: LEAK, B: LIVE}), name="pools.json")
    second = program.dump(LIVE, LIVE_NIC, node(), nad("eth0"), name="deep/rest.yaml")
    for given in (["-f", str(program.folder)], ["-f", first, second], ["-f", first, "-f", second]):
        done = program.run("audit", *given, "--assume-complete", "--now", stamp(NOW))
        assert (done.status, done.err) == (1, ""), given


# --- gc over files ----------------------------------------------------------------------------------------------------


def sweeps(program: Program, times: Sequence[str], *more: str) -> list[Done]:
    """Sweeps of one file into itself, at these times of the day."""
    path = program.dump(*LEAKING)
    return [
        program.run("gc", "-f", path, "--write", path, "--now", f"2026-01-10T{time}Z", "--assume-complete", *more)
        for time in times
    ]


def kinds(program: Program, kind: str) -> list[Object]:
    """The objects of a kind in the dump."""
    items: list[Object] = json.loads((program.folder / "dump.json").read_text(encoding="utf-8"))["items"]
    return [item for item in items if item["kind"] == kind]


def test_release_from_first_sighting_to_the_end(program: Program) -> None:
    """Calls with --now apart show a whole release, ledger included, without any cluster."""
    first, second, third, fourth = sweeps(
        program, ("12:00:00", "12:10:00", "12:11:00", "12:30:00"), "--mode", "release"
    )
    assert [done.status for done in (first, second, third, fourth)] == [0] * 4
    assert "grace until 2026-01-10T12:10:00Z" in first.out
    assert "cooldown until 2026-01-10T12:11:00Z" in second.out
    assert "Released" in third.out
    (left,) = kinds(program, "SpiderIPPool")
    assert list(json.loads(left["status"]["allocatedIPs"])) == [B]
    assert left["status"]["allocatedIPCount"] == 1
    (guard,) = kinds(program, "PoolGuard")
    assert [item["address"] for item in guard["status"]["released"]] == [A]
    assert not guard["status"].get("ledger")


def test_observe_is_the_default(program: Program) -> None:
    """Without --mode no IPAM object is touched, and the text says so."""
    *_, last = sweeps(program, ("12:00:00", "12:20:00", "12:40:00", "13:00:00"))
    assert last.status == 0
    assert "Mode observe: no IPAM object was touched." in last.out
    assert kinds(program, "SpiderIPPool")[0]["status"] == LEAKING[0]["status"]


def test_opt_in(program: Program) -> None:
    """opt-in waits for a PoolGuard that says Release."""
    sweeps(program, ("12:00:00", "12:20:00", "12:40:00"), "--mode", "opt-in")
    assert kinds(program, "SpiderIPPool")[0]["status"] == LEAKING[0]["status"]


def test_grace_cooldown_and_cap(program: Program) -> None:
    """--grace, --cooldown and --max-releases are heeded."""
    quick = ("--mode", "release", "--grace", "1s", "--cooldown", "0s")
    sweeps(program, ("12:00:00", "12:00:01", "12:00:02"), *quick, "--max-releases", "0")
    assert kinds(program, "SpiderIPPool")[0]["status"] == LEAKING[0]["status"]
    sweeps(program, ("12:00:00", "12:00:01", "12:00:02"), *quick)
    assert kinds(program, "SpiderIPPool")[0]["status"] != LEAKING[0]["status"]


def test_gc_of_incomplete_evidence(program: Program) -> None:
    """A part that could not be done is 2; the rest is written all the same."""
    out = program.folder / "out.json"
    done = program.over((blue({A: LEAK, B: LIVE}), LIVE), "gc", "--write", str(out), complete=False)
    assert done.status == 2
    assert out.exists()


def test_gc_without_pods(program: Program) -> None:
    """No pod at all stops the sweep, and is 2."""
    done = program.over((blue({A: LEAK}), node()), "gc", "--mode", "release")
    assert done.status == 2
    assert "no pod at all was read" in done.err


@pytest.mark.parametrize("name", ["out.yaml", "out.json"])
def test_round_trip(program: Program, name: str) -> None:
    """What is written can be read again, in either form, and says the same."""
    out = str(program.folder / name)
    assert program.over(LEAKING, "gc", "--write", out).status == 0
    options = ("-o", "json", "--now", stamp(NOW), "--assume-complete")
    again = json.loads(program.run("audit", "-f", out, *options).out)
    before = json.loads(program.over(LEAKING, "audit", "-o", "json").out)
    assert again["pools"][0] | {"findings": 1} == before["pools"][0]


def test_dump_without_pools(program: Program) -> None:
    """Pools that were not given are not gone: sweep after sweep, no guard is told so, nor deleted."""
    made = guard() | {"status": {"poolUID": "blue-uid"}}
    made["metadata"] |= {"labels": {"poolwarden.dev/made-by": "gc"}}
    path = program.dump(made, LIVE, node())
    for minute in range(3):
        program.run("gc", "-f", path, "--write", path, "--now", f"2026-01-10T12:0{minute}:00Z")
    (left,) = kinds(program, "PoolGuard")
    assert left["status"] == {"poolUID": "blue-uid"}


def test_write_to_standard_output(program: Program) -> None:
    """`--write -` writes the objects, and nothing else, to standard output."""
    done = program.over(LEAKING, "gc", "--write", "-")
    assert done.status == 0
    assert "PoolGuard" in {item["kind"] for item in json.loads(done.out)["items"]}


def test_write_that_fails(program: Program) -> None:
    """A file that cannot be written is one line and 2."""
    done = program.over(LEAKING, "gc", "--write", str(program.folder / "no" / "out.json"))
    assert (done.status, len(done.lines)) == (2, 1)
    assert "no/out.json: No such file or directory" in done.err


# --- explain ----------------------------------------------------------------------------------------------------------


def test_explain(program: Program) -> None:
    """The whole story: record, digest, verdict, message and what comes next; 1, since there is a finding."""
    done = program.over(LEAKING, "explain", A)
    assert (done.status, done.err) == (1, "")
    for word in (digest(A, LEAK), "Leaked · OwnerGone", "no pod of that UID exists", "next", "inside"):
        assert word in done.out


def test_explain_an_address_in_use(program: Program) -> None:
    """In use is nothing to report: 0; who shows it is told."""
    done = program.over(LEAKING, "explain", B)
    assert (done.status, done.err) == (0, "")
    assert "shown by" in done.out
    assert "nothing: gc leaves it alone" in done.out


@pytest.mark.parametrize("address", ["10.0.0.30", "192.0.2.1"])
def test_explain_an_address_without_record(program: Program, address: str) -> None:
    """Free, or in no pool: 0."""
    done = program.over(LEAKING, "explain", address)
    assert done.status == 0
    assert address in done.out


def test_explain_any_spelling(program: Program) -> None:
    """An address is known by its canonical form."""
    six = pool("six", "fd00::1-fd00::ff", {"fd00::a": LEAK})
    done = program.over((six, LIVE, node()), "explain", "FD00:0:0:0::A")
    assert "fd00::a in spiderpool.six" in done.out


# --- release and restore ----------------------------------------------------------------------------------------------


def by_hand(program: Program, *arguments: str, objects: Sequence[Object] = LEAKING, now: str = stamp(NOW)) -> Done:
    """A command over the dump, written back into it."""
    path = program.folder / "dump.json"
    if not path.exists():
        program.dump(*objects)
    return program.run(*arguments, "-f", str(path), "--write", str(path), "--now", now, "--assume-complete")


def release(program: Program, *more: str, address: str = A, record: str = "", **options: Any) -> Done:
    """`release` of the leak."""
    return by_hand(
        program, "release", address, "--pool", "blue", "--record", record or digest(A, LEAK), *more, **options
    )


def test_release_and_restore(program: Program) -> None:
    """Released at once, and put back: 0 both; gc then holds it."""
    done = release(program, "--yes")
    assert (done.status, done.out) == (0, "10.0.0.10 released from blue\n")
    assert A not in kinds(program, "SpiderIPPool")[0]["status"]["allocatedIPs"]
    back = by_hand(program, "restore", A, "--pool", "blue")
    assert (back.status, back.err) == (0, "")
    assert json.loads(kinds(program, "SpiderIPPool")[0]["status"]["allocatedIPs"])[A] == LEAK
    twice = by_hand(program, "restore", A, "--pool", "blue")
    assert (twice.status, "refused (History)" in twice.err) == (1, True)


def test_release_needs_a_yes(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can be asked, --yes must be said: 2, and nothing is written."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    done = release(program)
    assert done.status == 2
    assert "--yes" in done.err
    assert A in kinds(program, "SpiderIPPool")[0]["status"]["allocatedIPs"]


def guard(**spec: Any) -> Object:
    """The PoolGuard of blue."""
    return {
        "apiVersion": "poolwarden.dev/v1alpha1",
        "kind": "PoolGuard",
        "metadata": {"name": "spiderpool.blue", "uid": "guard-uid", "generation": 1, "resourceVersion": "1"},
        "spec": {"poolRef": {"ipam": "spiderpool", "name": "blue"}, **spec},
    }


@pytest.mark.parametrize(
    ("objects", "arguments", "name"),
    [
        (LEAKING, (A, "--pool", "red", "--record", "x"), "Pool"),
        (LEAKING, ("10.0.0.29", "--pool", "blue", "--record", "x"), "Record"),
        (LEAKING, (A, "--pool", "blue", "--record", "0123456789abcdef"), "Digest"),
        (LEAKING, (B, "--pool", "blue", "--record", digest(B, LIVE)), "Verdict"),
        ((*LEAKING, guard(keep=[A])), (A, "--pool", "blue", "--record", digest(A, LEAK)), "Verdict"),
        ((*LEAKING, guard(maxReleasesPerSweep=0)), (A, "--pool", "blue", "--record", digest(A, LEAK)), "Cap"),
        (
            (blue({A: LEAK, C: claim("x"), D: claim("y"), B: LIVE}), *LEAKING[1:]),
            (A, "--pool", "blue", "--record", digest(A, LEAK)),
            "Brake",
        ),
        ((*LEAKING, pod("other", ips=[A])), (A, "--pool", "blue", "--record", digest(A, LEAK)), "Verdict"),
    ],
    ids=["pool", "record", "digest", "in-use", "keep", "cap", "brake", "veto"],
)
def test_release_refused(program: Program, objects: Sequence[Object], arguments: tuple[str, ...], name: str) -> None:
    """1, one line that names the guard, and nothing is written."""
    done = by_hand(program, "release", *arguments, "--yes", objects=objects)
    assert (done.status, done.out) == (1, "")
    assert len(done.lines) == 1
    assert done.err.startswith(f"refused ({name}): ")
    assert kinds(program, "SpiderIPPool")[0]["status"] == objects[0]["status"]


def test_release_of_what_is_not_known(program: Program) -> None:
    """Incomplete evidence is no refusal: 2, and the line says what lacks."""
    path = program.dump(blue({A: LEAK, B: LIVE}))
    done = program.run("release", A, "--pool", "blue", "--record", digest(A, LEAK), "--yes", "-f", path)
    assert (done.status, done.out) == (2, "")
    assert "poolwarden: " in done.err


def test_restore_refused(program: Program) -> None:
    """What gc never released, or what somebody has by now: 1, with the guard's name."""
    never = by_hand(program, "restore", B, "--pool", "blue")
    assert (never.status, "refused (History)" in never.err) == (1, True)
    assert release(program, "--yes").status == 0
    items = json.loads((program.folder / "dump.json").read_text(encoding="utf-8"))["items"]
    program.dump(*items, pod("other", ips=[A]))
    shown = by_hand(program, "restore", A, "--pool", "blue")
    assert (shown.status, "refused (InUse)" in shown.err, "default/other" in shown.err) == (1, True, True)


# --- bad usage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("COMMAND",)),
        (("sweep",), ("'sweep'", "audit", "restore")),
        (("audit", "--fast"), ("--fast",)),
        (("audit", "--out", "json"), ("--out",)),
        (("audit", "-o", "xml"), ("'xml'", "table", "json", "yaml")),
        (("audit", "-f"), ("-f",)),
        (("audit", "--grace", "soon"), ("--grace", "'soon'", "10m")),
        (("audit", "--grace", ""), ("--grace", "10m")),
        (("audit", "--grace", "-5m"), ("--grace",)),
        (("audit", "--grace", "1m1h"), ("--grace", "'1m1h'")),
        (("audit", "--grace", "1.5h"), ("--grace", "'1.5h'")),
        (("audit", "--timeout", "0s"), ("--timeout", "'0s'")),
        (("gc", "--interval", "0"), ("--interval", "'0'")),
        (("gc", "--interval", "5m", "--cron", "* * * * *"), ("--cron", "--interval")),
        (("gc", "--once", "--cron", "* * * * *"), ("--cron", "--once")),
        (("gc", "--mode", "free"), ("'free'", "observe", "opt-in", "release")),
        (("gc", "--max-releases", "-1"), ("--max-releases", "'-1'")),
        (("gc", "--max-releases", "many"), ("--max-releases", "'many'")),
        (("gc", "--max-releases", "²"), ("--max-releases",)),
        (("audit", "--qps", "0"), ("--qps", "'0'")),
        (("audit", "--qps", "nan"), ("--qps", "'nan'")),
        (("audit", "--qps", "inf"), ("--qps", "'inf'")),
        (("audit", "--qps", "fast"), ("--qps", "'fast'")),
        (("audit", "--now", "noon", "-f", "x"), ("--now", "'noon'", "2026-01-10T12:00:00Z")),
        (("audit", "--now", "2026-01-10", "-f", "x"), ("--now", "2026-01-10T12:00:00Z")),
        (("audit", "--now", "2026-01-10T12:00:00", "-f", "x"), ("--now",)),
        (("audit", "--now", "0001-01-01T00:00:00+14:00", "-f", "x"), ("--now",)),
        (("audit", "--now", "9999-12-31T23:59:59-14:00", "-f", "x"), ("--now",)),
        (("audit", "--now", "2026-01-10T12:00:00Z"), ("--now", "-f")),
        (("audit", "--assume-complete"), ("--assume-complete", "-f")),
        (("gc", "--write", "out.json"), ("--write", "-f")),
        (("audit", "--wide", "--map"), ("--wide", "--map")),
        (("audit", "--wide", "-o", "json"), ("--wide", "table")),
        (("audit", "--map", "-o", "yaml"), ("--map", "table")),
        (("explain", "10.0.0.300"), ("'10.0.0.300'", "address")),
        (("explain", "10.0.0.1/24"), ("'10.0.0.1/24'",)),
        (("explain", "web-0"), ("'web-0'",)),
        (("explain",), ("ADDRESS",)),
        (("explain", "fe80::1%eth0"), ("fe80::1%eth0",)),
        (("release", "10.0.0.1", "--pool", "blue"), ("--record",)),
        (("release", "10.0.0.1", "--record", "x"), ("--pool",)),
        (("restore", "10.0.0.1"), ("--pool",)),
        (("audit", "--ipam", "calico", "-f", "x"), ("'calico'", "spiderpool")),
        (("gc", "--cron", "often", "--kubeconfig", "/dev/null"), ("--cron", "'often'", "five fields")),
        (("gc", "--cron", "61 * * * *", "--kubeconfig", "/dev/null"), ("--cron", "'61 * * * *'")),
        (("audit", "--kubeconfig", "/nowhere"), ("/nowhere",)),
    ],
    ids=" ".join,
)
def test_bad_usage(program: Program, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    """One line on standard error that names the thing and what is allowed; 2; nothing on standard output."""
    done = program.run(*arguments)
    assert (done.status, done.out) == (2, "")
    assert len(done.lines) == 1, done.err
    for word in words:
        assert word in done.err


def bad_files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files that cannot be read, and what is to be said of them."""
    texts: dict[str, tuple[bytes, str]] = {
        "broken.yaml": (b"kind: Pod\nmetadata: {name: [\n", "broken.yaml:"),
        "tab.yaml": (b"kind: Pod\n\tmetadata: x\n", "tab.yaml:2"),
        "cut.json": (b'{"kind": "List", "items": [{"kind": ', "cut.json"),
        "garbage.json": (b"}{", "garbage.json"),
        "binary.yaml": (bytes(range(256)), "binary.yaml"),
        "empty.yaml": (b"", "empty.yaml: empty"),
        "bomb.yaml": (b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b", "bomb.yaml"),
        "scalar.yaml": (b"just text\n", "scalar.yaml"),
    }
    paths = {}
    for name, (text, said) in texts.items():
        (folder / name).write_bytes(text)
        paths[name] = (folder / name, said)
    paths["absent"] = (folder / "absent.yaml", "absent.yaml: No such file or directory")
    (folder / "nothing").mkdir()
    paths["nothing"] = (folder / "nothing", "nothing: no *.yaml")
    return paths


BAD_FILES = [
    "absent",
    "binary.yaml",
    "bomb.yaml",
    "broken.yaml",
    "cut.json",
    "empty.yaml",
    "garbage.json",
    "nothing",
    "scalar.yaml",
    "tab.yaml",
]


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("command", ["audit", "gc", "explain"])
def test_bad_file(program: Program, command: str, name: str) -> None:
    """A file that cannot be read is named, with its line where there is one; 2; never a traceback."""
    path, said = bad_files(program.folder)[name]
    done = program.run(command, *([A] if command == "explain" else []), "-f", str(path))
    assert done.status == 2
    assert said in done.err


@pytest.mark.parametrize("name", ["absent", "broken.yaml"])
@pytest.mark.parametrize("command", ["audit", "gc", "explain"])
def test_bad_file_is_one_line(program: Program, command: str, name: str) -> None:
    """One clear line: what follows from a file that cannot be read is not told kind by kind."""
    path, said = bad_files(program.folder)[name]
    more = {"explain": [A], "gc": ["--write", str(program.folder / "out.json")]}
    done = program.run(command, *more.get(command, []), "-f", str(path))
    assert [line for line in done.lines if said not in line] == []
    assert len(done.lines) == 1, done.err


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("command", ["release", "restore"])
def test_bad_file_by_hand(program: Program, command: str, name: str) -> None:
    """By hand as well: could not, with the file's name."""
    path, said = bad_files(program.folder)[name]
    record = ["--record", "x"] if command == "release" else []
    done = program.run(command, A, "--pool", "blue", *record, "-f", str(path))
    assert done.status == 2
    assert said in done.err


def test_broken_document_beside_good_ones(program: Program) -> None:
    """The rest is still read and judged; the status is 2."""
    path, said = bad_files(program.folder)["broken.yaml"]
    done = program.run("audit", "-f", program.dump(*LEAKING), str(path), "--now", stamp(NOW), "-o", "json")
    assert done.status == 2
    assert said in done.err
    report = json.loads(done.out)
    assert [item["name"] for item in report["pools"]] == ["blue"]
    assert report["complete"] is False


@pytest.mark.parametrize("command", ["audit", "explain"])
def test_unknown_pool(program: Program, command: str) -> None:
    """`--pool` of a pool that is not there: 2, and the line names it."""
    done = program.over(HEALTHY, command, *([A] if command == "explain" else []), "--pool", "red")
    assert (done.status, done.lines) == (2, ["poolwarden: --pool: there is no pool 'red'; there are: blue"])


def test_defect_is_one_line(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of ours is one line that names the place, and 2."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("poolwarden.commands.examine", broken)
    done = program.over(HEALTHY, "audit")
    assert (done.status, done.out, len(done.lines)) == (2, "", 1)
    assert "defect of poolwarden at test_cli.py:" in done.err
    assert "boom" in done.err


def test_interrupt(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is one line, and 2."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("poolwarden.commands.examine", interrupted)
    done = program.over(HEALTHY, "audit")
    assert (done.status, done.lines) == (2, ["poolwarden: interrupted"])


# --- help, and the programs as they are installed ---------------------------------------------------------------------

COMMANDS = {
    "audit": ["--file", "--output", "--now", "--grace", "--ipam", "--pool", "--assume-complete"],
    "gc": ["--once", "--interval", "--cron", "--mode", "--grace", "--cooldown", "--max-releases", "--write", "--now"],
    "explain": ["ADDRESS", "--pool", "--file"],
    "release": ["ADDRESS", "--pool", "--record", "--yes"],
    "restore": ["ADDRESS", "--pool"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_help(program: Program, command: str) -> None:
    """`--help` of each command tells its options, on standard output, and is 0."""
    done = program.run(command, "--help")
    assert (done.status, done.err) == (0, "")
    for option in COMMANDS[command]:
        assert option in done.out


def test_help_of_all(program: Program) -> None:
    """The program's own help names each command and the exit statuses."""
    done = program.run("--help")
    assert done.status == 0
    assert all(command in done.out for command in COMMANDS)
    assert "exit status" in done.out


SCRIPTS = [
    [sys.executable, "-m", "poolwarden"],
    [str(Path(sys.executable).with_name("poolwarden"))],
    [str(Path(sys.executable).with_name("kubectl-poolwarden"))],
]


def process(command: Sequence[str], *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The program as a process of its own."""
    environment = os.environ | {"COLUMNS": "80"}
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=60, check=False, env=environment, **options
    )


def test_module_and_scripts_are_one(program: Program) -> None:
    """`python -m poolwarden`, `poolwarden` and `kubectl-poolwarden` say the same, to the byte."""
    arguments = ("audit", "-f", program.dump(*LEAKING), "--now", stamp(NOW), "--assume-complete", "-o", "json")
    done = [process(script, *arguments) for script in SCRIPTS]
    assert [one.returncode for one in done] == [1, 1, 1]
    assert len({one.stdout for one in done}) == 1
    assert [one.stderr for one in done] == ["", "", ""]


def test_names_in_usage_errors() -> None:
    """A usage error is the same by whatever name the program is called."""
    done = [process(script, "audit", "--fast") for script in SCRIPTS[:2]]
    assert {(one.returncode, one.stdout, one.stderr) for one in done} == {
        (2, "", "poolwarden: unrecognized arguments: --fast\n")
    }


def test_results_and_logs_apart(program: Program) -> None:
    """Logs go to standard error, as JSON where that is no terminal; results to standard output."""
    path = program.dump(*LEAKING)
    for time in ("12:00:00", "12:10:00"):
        main(["gc", "-f", path, "--write", path, "--now", f"2026-01-10T{time}Z", "--assume-complete"])
    options = ("--mode", "release", "--now", "2026-01-10T12:11:00Z", "--assume-complete")
    done = process(SCRIPTS[0], "gc", "-f", path, "--write", path, *options)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    log = json.loads(line)
    assert (log["event"], log["outcome"], log["pool"], log["address"]) == ("release", "Released", "blue", A)
    assert (log["uid"], log["reason"], log["first_seen"]) == ("app-uid", "OwnerGone", "2026-01-10T12:00:00+00:00")
    assert "{" not in done.stdout


def test_reader_that_leaves(program: Program) -> None:
    """A closed pipe is no traceback."""
    path = program.dump(*LEAKING)
    audit = subprocess.Popen(
        [*SCRIPTS[0], "audit", "-f", path, "--assume-complete"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert audit.stdout is not None
    audit.stdout.close()
    assert audit.stderr is not None
    with audit.stderr as stderr:
        assert b"Traceback" not in stderr.read()
    assert audit.wait(timeout=60) in {1, 2}


AUDITED = Path(__file__).parent / "cases" / "audit"


@pytest.mark.parametrize(
    ("case", "address"),
    [
        ("whereabouts-09-reservations", "10.0.0.9"),
        ("neon-01-stale-allocation", "10.100.128.5"),
        ("terway-01-pod-gone-runtime-deleted", "172.16.3.11"),
    ],
)
def test_a_digest_does_not_depend_on_who_printed_the_dump(program: Program, case: str, address: str) -> None:
    """From YAML, from indented JSON and with members in another order: a record is the same."""
    documents = list(yaml.safe_load_all((AUDITED / case / "cluster.yaml").read_text()))
    turned = program.folder / "turned.json"
    turned.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [_turned(item) for item in documents]}, indent=4)
    )
    said = [
        program.run("explain", address, "-f", str(path), "--assume-complete", "--now", stamp(NOW)).out
        for path in (AUDITED / case / "cluster.yaml", turned)
    ]
    digests = [re.findall(r"digest +(\w+)", text) for text in said]
    assert digests[0] == digests[1]
    assert len(digests[0]) == 1


def _turned(value: Any) -> Any:
    """The same value with all members in the opposite order."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["10.0.0.0-24", "kube-system/10.0.0.0-24", "whereabouts.kube-system.10.0.0.0-24"])
def test_every_way_to_name_a_pool(program: Program, name: str) -> None:
    """As findings have it, as the table shows it, and as its PoolGuard is called."""
    dump = (
        "-f",
        str(AUDITED / "whereabouts-09-reservations" / "cluster.yaml"),
        "--assume-complete",
        "--now",
        stamp(NOW),
    )
    assert "1 Leaked" in program.run("audit", "--pool", name, *dump).out
    assert "digest" in program.run("explain", "10.0.0.9", "--pool", name, *dump).out
    refused = program.run("release", "10.0.0.9", "--pool", name, "--record", "0" * 16, "--yes", *dump)
    assert "has digest" in refused.err


def test_a_dump_of_pools_needs_no_pools_of_the_owners_namespace(program: Program) -> None:
    """Pools of whereabouts stand in a namespace of their own: given is given."""
    dump = AUDITED / "whereabouts-09-reservations" / "cluster.yaml"
    said = program.run("audit", "-f", str(dump), "--now", stamp(NOW))
    assert "no ippools of namespace" not in said.err
