import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from poolwarden.cluster.documents import parse
from poolwarden.cluster.files import Files, Saved, Unsaved
from poolwarden.cluster.inputs import gathered, read
from poolwarden.cluster.interface import (
    Absent,
    Deleted,
    Doubt,
    Failed,
    Found,
    Outdated,
    PatchType,
    WriteOutcome,
    Written,
)
from poolwarden.ipam.kinds import NODES, PODS, Kind

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
POOLS = Kind("example.dev", "v1", "pools", "Pool", namespaced=False)
METADATA = {"name": "p1", "uid": "u1", "resourceVersion": "41", "generation": 3}
POOL = {
    "apiVersion": "example.dev/v1",
    "kind": "Pool",
    "metadata": METADATA,
    "spec": {"ips": ["10.0.0.1"]},
    "status": {"allocated": {"10.0.0.1": "a", "10.0.0.2": "b"}},
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "blue", "resourceVersion": "99"}}


class Anything(Struct):
    """Any object."""

    metadata: dict[str, Any]


def files(*objects: dict[str, Any]) -> Files:
    """A cluster of these objects, whose pools have a status subresource."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=1).encode()
    subresources = frozenset({("example.dev", "pools")})
    return Files(gathered(parse(text, "f")), clock=lambda: NOW, status_subresources=subresources)


def stored(cluster: Files, kind: Kind = POOLS, name: str = "p1", namespace: str = "") -> dict[str, Any]:
    """The object as it is now."""
    found = cluster.get(kind, Anything, name=name, namespace=namespace)
    assert isinstance(found, Found)
    return dict(msgspec.json.decode(found.raw))


def written(outcome: WriteOutcome) -> dict[str, Any]:
    """The object after a write that succeeded."""
    assert isinstance(outcome, Written)
    return dict(msgspec.json.decode(outcome.raw))


def test_merge_patch() -> None:
    """A change is made, in a new version above all that were given; what it does not name stays."""
    cluster = files(POOL, POD)
    after = written(cluster.patch(POOLS, {"metadata": {"labels": {"x": "1"}}, "spec": {"note": "n"}}, name="p1"))
    assert after["spec"] == {"ips": ["10.0.0.1"], "note": "n"}
    assert after["metadata"] == METADATA | {"labels": {"x": "1"}, "resourceVersion": "100", "generation": 4}
    assert after["status"] == POOL["status"]
    assert stored(cluster) == after


def test_versions_only_grow() -> None:
    """Each change makes a version of its own."""
    cluster = files(POOL)
    versions = [
        int(written(cluster.patch(POOLS, {"spec": {"n": n}}, name="p1"))["metadata"]["resourceVersion"])
        for n in range(3)
    ]
    assert versions == sorted(set(versions))
    assert versions[0] > 41


def test_nothing_changed() -> None:
    """A patch that changes nothing makes no new version."""
    cluster = files(POOL)
    assert written(cluster.patch(POOLS, {"spec": {"ips": ["10.0.0.1"]}}, name="p1"))["metadata"] == METADATA


@pytest.mark.parametrize("precondition", [{"resourceVersion": "40"}, {"uid": "u2"}])
def test_merge_patch_preconditions(precondition: dict[str, str]) -> None:
    """A version or UID in a merge patch must be the object's own; else nothing is written."""
    cluster = files(POOL)
    outcome = cluster.patch(POOLS, {"metadata": precondition, "spec": {"n": 1}}, name="p1")
    assert isinstance(outcome, Outdated)
    assert stored(cluster) == POOL


def test_merge_patch_preconditions_met() -> None:
    """With the object's own version and UID it is written."""
    cluster = files(POOL)
    patch = {"metadata": {"resourceVersion": "41", "uid": "u1"}, "spec": {"n": 1}}
    assert written(cluster.patch(POOLS, patch, name="p1"))["spec"]["n"] == 1


def test_json_patch() -> None:
    """A JSON patch whose tests hold is made."""
    cluster = files(POOL)
    patch = [
        {"op": "test", "path": "/status/allocated/10.0.0.1", "value": "a"},
        {"op": "remove", "path": "/status/allocated/10.0.0.1"},
    ]
    after = written(cluster.patch(POOLS, patch, name="p1", subresource="status", type=PatchType.JSON))
    assert after["status"] == {"allocated": {"10.0.0.2": "b"}}
    assert after["metadata"]["generation"] == 3


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/status/allocated/10.0.0.1", "value": "z"},
        {"op": "remove", "path": "/status/allocated/10.0.0.9"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "40"},
    ],
)
def test_json_patch_outdated(operation: dict[str, Any]) -> None:
    """A failed test, a path that is gone, or another version means: re-read. Nothing is written."""
    cluster = files(POOL)
    patch = [{"op": "add", "path": "/status/x", "value": 1}, operation]
    outcome = cluster.patch(POOLS, patch, name="p1", subresource="status", type=PatchType.JSON)
    assert isinstance(outcome, Outdated)
    assert stored(cluster) == POOL


def test_status_apart() -> None:
    """Of a kind with a status subresource each path changes its own part alone."""
    cluster = files(POOL)
    both = {"spec": {"n": 1}, "status": {"x": 1}}
    assert written(cluster.patch(POOLS, both, name="p1"))["status"] == POOL["status"]
    after = written(cluster.patch(POOLS, both | {"spec": {"n": 2}}, name="p1", subresource="status"))
    assert (after["spec"]["n"], after["status"]["x"]) == (1, 1)


def test_status_not_apart() -> None:
    """Of other kinds the status is a part like any, and there is no subresource."""
    cluster = files(POD)
    assert written(cluster.patch(PODS, {"status": {"x": 1}}, name="a", namespace="blue"))["status"] == {"x": 1}
    outcome = cluster.patch(PODS, {"status": {"x": 2}}, name="a", namespace="blue", subresource="status")
    assert isinstance(outcome, Failed)
    assert outcome.doubt is Doubt.REJECTED


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"name": "p2"}},
        {"metadata": {"namespace": "blue"}},
        {"metadata": None},
        {"kind": "Lake"},
        {"apiVersion": "example.dev/v2"},
    ],
)
def test_identity_cannot_change(body: dict[str, Any]) -> None:
    """What makes an object that object is not to be patched."""
    cluster = files(POOL)
    outcome = cluster.patch(POOLS, body, name="p1")
    assert isinstance(outcome, Failed)
    assert (outcome.doubt, outcome.uncertain) == (Doubt.REJECTED, False)
    assert stored(cluster) == POOL


def test_server_owned_fields_stay() -> None:
    """Times and generation are the server's to set."""
    cluster = files(POOL)
    body = {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 99, "uid": None}, "spec": {"n": 1}}
    metadata = written(cluster.patch(POOLS, body, name="p1"))["metadata"]
    assert metadata == METADATA | {"resourceVersion": "42", "generation": 4}


@pytest.mark.parametrize(
    ("body", "type"),
    [({"a": 1}, PatchType.JSON), ([], PatchType.MERGE), ([{"op": "frob", "path": "/x"}], PatchType.JSON)],
)
def test_patch_that_is_none(body: Any, type: PatchType) -> None:  # noqa: A002
    """A patch of another shape than its type's, or of no known operation, is refused."""
    outcome = files(POOL).patch(POOLS, body, name="p1", type=type)
    assert isinstance(outcome, Failed)
    assert outcome.doubt is Doubt.REJECTED


def test_patch_of_everything() -> None:
    """What a patch leaves must still be an object."""
    operation = [{"op": "replace", "path": "", "value": 5}]
    assert isinstance(files(POOL).patch(POOLS, operation, name="p1", type=PatchType.JSON), Failed)


def test_writes_to_what_is_not_there() -> None:
    """An absent object is told as such; one that may exist outside the files is not."""
    cluster = files(POOL)
    assert cluster.patch(POOLS, {}, name="p2") == Absent()
    assert cluster.delete(POOLS, name="p2", uid="u", resource_version="1") == Absent()
    outcome = cluster.patch(NODES, {}, name="n1")
    assert isinstance(outcome, Failed)
    assert outcome.doubt is Doubt.NOT_GIVEN


def test_create() -> None:
    """A new object gets identity, time, version and generation, and its place at the end."""
    cluster = files(POOL)
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": {"x": 1}}
    after = written(cluster.create(PODS, body, namespace="blue"))
    uid = after["metadata"].pop("uid")
    assert len(uid) == 36
    assert after["metadata"] == {
        "name": "b",
        "namespace": "blue",
        "resourceVersion": "42",
        "creationTimestamp": "2026-01-10T12:00:00Z",
        "generation": 1,
    }
    assert stored(cluster, PODS, "b", "blue")["metadata"]["uid"] == uid
    assert written(files(POOL).create(PODS, body, namespace="blue"))["metadata"]["uid"] == uid


def test_recreate() -> None:
    """An object made anew under its old name is another one."""
    cluster = files(POOL)
    body = {"apiVersion": "example.dev/v1", "kind": "Pool", "metadata": {"name": "p2"}, "status": {"x": 1}}
    first = written(cluster.create(POOLS, body))
    assert "status" not in first
    metadata = first["metadata"]
    outcome = cluster.delete(POOLS, name="p2", uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    assert outcome == Deleted()
    assert written(cluster.create(POOLS, body))["metadata"]["uid"] != metadata["uid"]


def test_create_what_exists() -> None:
    """An object of that name is in the way."""
    cluster = files(POOL)
    assert isinstance(cluster.create(POOLS, POOL), Outdated)
    assert stored(cluster) == POOL


@pytest.mark.parametrize(
    ("metadata", "namespace"),
    [
        ({"generateName": "x-"}, "blue"),
        ({"name": "a/b"}, "blue"),
        ({"name": "x"}, ""),
        ({"name": "x", "namespace": "green"}, "blue"),
    ],
)
def test_create_nowhere(metadata: dict[str, str], namespace: str) -> None:
    """Without a name, in no namespace or in two, nothing can be created."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    outcome = files(POOL).create(PODS, body, namespace=namespace)
    assert isinstance(outcome, Failed)
    assert outcome.doubt is Doubt.REJECTED


@pytest.mark.parametrize(("uid", "version"), [("u2", "41"), ("u1", "40"), ("", ""), ("", "41"), ("u1", "")])
def test_delete_preconditions(uid: str, version: str) -> None:
    """Only the object judged is deleted: both preconditions must hold, and an empty one does not."""
    cluster = files(POOL)
    assert isinstance(cluster.delete(POOLS, name="p1", uid=uid, resource_version=version), Outdated)
    assert stored(cluster) == POOL


def test_delete() -> None:
    """Without finalizers the object is gone, and absent from then on."""
    cluster = files(POOL)
    assert cluster.delete(POOLS, name="p1", uid="u1", resource_version="41") == Deleted()
    assert cluster.get(POOLS, Anything, name="p1") == Absent()
    assert cluster.list(POOLS, Anything).items == ()


def test_delete_what_a_finalizer_holds() -> None:
    """It is marked, once, and goes with its last finalizer."""
    cluster = files(POOL | {"metadata": METADATA | {"finalizers": ["a/b", "c/d"]}})
    metadata = written(cluster.delete(POOLS, name="p1", uid="u1", resource_version="41"))["metadata"]
    assert (metadata["deletionTimestamp"], metadata["resourceVersion"]) == ("2026-01-10T12:00:00Z", "42")
    again = written(cluster.delete(POOLS, name="p1", uid="u1", resource_version="42"))["metadata"]
    assert again == metadata
    patch = {"metadata": {"finalizers": ["c/d"]}}
    assert written(cluster.patch(POOLS, patch, name="p1"))["metadata"]["finalizers"] == ["c/d"]
    assert cluster.patch(POOLS, {"metadata": {"finalizers": None}}, name="p1") == Deleted()
    assert cluster.get(POOLS, Anything, name="p1") == Absent()


def test_grace_outlives_finalizers() -> None:
    """A pod within its grace period stays when its last finalizer goes: its kubelet has the last word."""
    mark = {"deletionTimestamp": "2026-01-10T12:00:30Z", "deletionGracePeriodSeconds": 30, "finalizers": ["a/b"]}
    cluster = files(POD | {"metadata": POD["metadata"] | mark})  # type: ignore[operator]
    assert (
        "finalizers"
        not in written(cluster.patch(PODS, {"metadata": {"finalizers": None}}, name="a", namespace="blue"))["metadata"]
    )


def test_unreadable_after_a_write() -> None:
    """An object keeps its place in the files when it is changed."""
    cluster = files(POOL, POD)

    class Strict(Struct):
        spec: dict[str, str]

    written(cluster.patch(PODS, {"spec": {"n": 1}}, name="a", namespace="blue"))
    assert [bad.where for bad in cluster.list(PODS, Strict).unreadable] == ["f:26"]


@pytest.mark.parametrize("name", ["out.yaml", "out.yml", "out.json", "out"])
def test_write_and_read_again(tmp_path: Path, name: str) -> None:
    """All objects are written, in the order given and new ones at the end, and every field is kept."""
    strange = {"apiVersion": "x/v1", "kind": "Odd", "metadata": {"name": "z"}, "b": {"y": "1", "x": [1.5, None, "yes"]}}
    cluster = files(POOL, strange, POD)
    written(cluster.patch(POOLS, {"spec": {"n": 1}}, name="p1"))
    written(cluster.create(PODS, {**POD, "metadata": {"name": "new"}}, namespace="blue"))
    path = str(tmp_path / name)
    assert cluster.write(path) == Saved()
    reading = read([path])
    assert reading.faults == ()
    assert [given.name for given in reading.objects] == ["p1", "z", "a", "new"]
    assert msgspec.json.decode(reading.objects[1].raw) == strange
    assert msgspec.json.decode(reading.objects[0].raw) == stored(cluster)
    assert os.listdir(tmp_path) == [name]  # noqa: PTH208


def test_write_to_standard_output(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """A dash is standard output, and JSON."""
    assert files(POOL).write("-") == Saved()
    assert json.loads(capsysbinary.readouterr().out)["items"] == [POOL]


def test_failed_write_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full, the file is as it was, and nothing else lies about."""
    path = tmp_path / "out.json"
    path.write_text("before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert files(POOL).write(str(path)) == Unsaved(f"{path}: No space left on device")
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["out.json"]  # noqa: PTH208


def test_write_into_a_pipe(tmp_path: Path) -> None:
    """A named pipe is written into, not replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    assert files(POOL).write(str(pipe)) == Saved()
    reader.join(5)
    assert json.loads(heard[0])["items"] == [POOL]


def test_write_to_nowhere(tmp_path: Path) -> None:
    """A folder that is not there is told."""
    path = tmp_path / "none" / "out.json"
    assert files(POOL).write(str(path)) == Unsaved(f"{path}: No such file or directory")


def test_write_through_a_link_and_to_a_device(tmp_path: Path) -> None:
    """A link stays a link, and a device is written to, not replaced."""
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert files(POOL).write(str(tmp_path / "link")) == Saved()
    assert (tmp_path / "link").is_symlink()
    assert b"example.dev" in (tmp_path / "real").read_bytes()
    assert files(POOL).write(os.devnull) == Saved()
    assert Path(os.devnull).is_char_device()
