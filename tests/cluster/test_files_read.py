from datetime import UTC, datetime

import pytest
from msgspec import Struct

from poolwarden.cluster.documents import parse
from poolwarden.cluster.files import Files
from poolwarden.cluster.inputs import Reading, gathered
from poolwarden.cluster.interface import (
    Absent,
    Complete,
    Coverage,
    Doubt,
    Found,
    Incomplete,
    Partial,
    Resource,
    Unread,
)
from poolwarden.ipam.kinds import NODES, PODS, STATEFUL_SETS

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
ALL_PODS = "kubectl get pods --all-namespaces -o yaml"


class Meta(Struct):
    """Which object it is."""

    name: str
    namespace: str = ""


class Thing(Struct):
    """Any object."""

    metadata: Meta


def pod(name: str, namespace: str = "blue", rest: str = "") -> str:
    """The YAML text of a pod."""
    return f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}}}\n{rest}"


NODE = "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
SET = "---\napiVersion: apps/v1beta2\nkind: StatefulSet\nmetadata: {name: s1, namespace: blue}\n"
OTHER_SET = "---\napiVersion: apps.openkruise.io/v1\nkind: StatefulSet\nmetadata: {name: s2, namespace: blue}\n"
BROKEN = "---\nkind: Pod\nx: 'y\n"


def reading(text: str) -> Reading:
    """A reading of one file."""
    return gathered(parse(text.encode(), "f"))


def files(text: str, *, assume_complete: bool = False) -> Files:
    """The cluster of one file."""
    return Files(reading(text), clock=lambda: NOW, assume_complete=assume_complete)


def names(cluster: Files, resource: Resource, namespace: str | None = None) -> list[str]:
    """The names that a list gives."""
    return [item.metadata.name for item in cluster.list(resource, Thing, namespace=namespace).items]


def coverage(cluster: Files, resource: Resource, namespace: str | None = None) -> Coverage:
    """How much a list says to know."""
    return cluster.list(resource, Thing, namespace=namespace).coverage


def test_list_by_kind_and_group() -> None:
    """A kind is told by group and name; its version does not matter, nor do unknown kinds."""
    cluster = files(pod("a") + NODE + SET + OTHER_SET)
    assert names(cluster, PODS) == ["a"]
    assert names(cluster, STATEFUL_SETS) == ["s1"]
    assert cluster.problems == ()


def test_list_of_a_namespace() -> None:
    """Only that namespace's objects come, and the coverage names it alone."""
    cluster = files(pod("a") + pod("b", "green"))
    assert names(cluster, PODS, "green") == ["b"]
    assert coverage(cluster, PODS, "green") == Partial(frozenset({"green"}))
    assert coverage(files(pod("a"), assume_complete=True), PODS, "green") == Partial(frozenset({"green"}))


def test_coverage_of_what_was_given() -> None:
    """Of a namespaced kind those namespaces count as read of which something was given, of others all."""
    cluster = files(pod("a") + pod("b", "green") + NODE)
    assert coverage(cluster, PODS) == Partial(frozenset({"blue", "green"}))
    assert coverage(cluster, NODES) == Complete()


@pytest.mark.parametrize(
    ("resource", "command"),
    [
        (PODS, ALL_PODS),
        (STATEFUL_SETS, "kubectl get statefulsets.apps --all-namespaces -o yaml"),
        (NODES, "kubectl get nodes -o yaml"),
    ],
)
def test_coverage_of_what_was_not_given(resource: Resource, command: str) -> None:
    """A kind of which nothing was given is not read, and the command that would complete the dump is told."""
    cluster = files("---\napiVersion: v1\nkind: Service\nmetadata: {name: s1, namespace: blue}\n")
    found = coverage(cluster, resource)
    assert isinstance(found, Incomplete)
    assert (found.doubt, found.command) == (Doubt.NOT_GIVEN, command)


def test_coverage_of_a_namespace_not_given() -> None:
    """A namespace of which nothing was given is not read either."""
    found = coverage(files(pod("a")), PODS, "green")
    assert found == Incomplete(Doubt.NOT_GIVEN, "no pods of namespace green were given", ALL_PODS)


def test_assume_complete() -> None:
    """What was not given does not exist, if the caller says so."""
    cluster = files(pod("a"), assume_complete=True)
    assert coverage(cluster, PODS) == Complete()
    assert coverage(cluster, STATEFUL_SETS) == Complete()
    assert cluster.get(PODS, Thing, name="x", namespace="green") == Absent()


@pytest.mark.parametrize("assume_complete", [False, True])
def test_broken_input_leaves_nothing_complete(assume_complete: bool) -> None:  # noqa: FBT001
    """After a document that could not be read any kind may lack an object, whatever is assumed; the rest is listed."""
    cluster = files(pod("a") + NODE + BROKEN, assume_complete=assume_complete)
    for resource, name in ((PODS, "pods"), (NODES, "nodes"), (STATEFUL_SETS, "statefulsets.apps")):
        message = f"{name} may be missing: f:11: found unexpected end of stream"
        assert coverage(cluster, resource) == Incomplete(Doubt.BROKEN, message)
    assert names(cluster, PODS) == ["a"]
    assert cluster.problems == ("f:11: found unexpected end of stream",)


def test_broken_object_of_a_known_kind() -> None:
    """Where the text leaves no doubt what was lost, only that kind is incomplete."""
    cluster = files(BROKEN + pod("a") + NODE)
    assert isinstance(coverage(cluster, PODS), Incomplete)
    assert coverage(cluster, NODES) == Complete()


def test_unreadable_objects() -> None:
    """An object that does not fit is told apart with its place, and spoils neither the list nor its coverage."""
    listing = files(pod("a") + pod("b") + "").list(PODS, Thing)
    assert listing.unreadable == ()

    class Spec(Struct):
        nodeName: str  # noqa: N815

    class Pod(Struct):
        metadata: Meta
        spec: Spec

    text = pod("a", rest="spec: {nodeName: n1}\n") + pod("b", rest="spec: {nodeName: 5}\n")
    found = files(text).list(PODS, Pod)
    assert [item.metadata.name for item in found.items] == ["a"]
    assert found.coverage == Partial(frozenset({"blue"}))
    (bad,) = found.unreadable
    assert (bad.namespace, bad.name, bad.where) == ("blue", "b", "f:7")
    assert "nodeName" in bad.error
    assert b'"nodeName":5' in bad.raw


def test_object_without_its_namespace() -> None:
    """A namespaced object without a namespace could be anywhere: its kind is not read to the end."""
    text = pod("b") + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
    found = coverage(files(text, assume_complete=True), PODS)
    assert found == Incomplete(Doubt.BROKEN, "f:6: Pod a lacks a metadata.namespace")


def test_cluster_scoped_object_with_a_namespace() -> None:
    """It would not be found under its name, so its kind is not read to the end."""
    found = coverage(files("apiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: blue}\n"), NODES)
    assert found == Incomplete(Doubt.BROKEN, "f:1: Node a cannot have a metadata.namespace")


def test_the_later_of_two() -> None:
    """Of two different objects of one name the later counts, and it is told; of equal ones nothing is."""
    cluster = files(pod("a", rest="spec: {x: 1}\n") + pod("b") + pod("a", rest="spec: {x: 2}\n"))
    assert cluster.problems == ("f:11: Pod blue/a differs from the one at f:2; this one counts",)
    found = cluster.get(PODS, Thing, name="a", namespace="blue")
    assert isinstance(found, Found)
    assert b'"x":2' in found.raw
    json = '---\n{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "blue"}}\n'
    assert files(pod("a") + json).problems == ()


def test_get() -> None:
    """An object that was given is found; one of a place that was given is absent; of others nothing is known."""
    cluster = files(pod("a") + NODE)
    found = cluster.get(PODS, Thing, name="a", namespace="blue")
    assert isinstance(found, Found)
    assert found.item.metadata == Meta("a", "blue")
    assert cluster.get(PODS, Thing, name="b", namespace="blue") == Absent()
    assert cluster.get(NODES, Thing, name="n2") == Absent()
    assert cluster.get(PODS, Thing, name="a", namespace="green") == Unread(
        Doubt.NOT_GIVEN, f"no pods of namespace green were given: {ALL_PODS}"
    )
    assert isinstance(cluster.get(STATEFUL_SETS, Thing, name="a", namespace="blue"), Unread)


@pytest.mark.parametrize(
    ("namespace", "name"), [("", "a"), ("blue", ""), ("blue", ".."), ("blue", "a/b"), ("a/b", "a")]
)
def test_get_of_no_name(namespace: str, name: str) -> None:
    """A name that no object can have proves nothing absent."""
    found = files(pod("a"), assume_complete=True).get(PODS, Thing, name=name, namespace=namespace)
    assert isinstance(found, Unread)
    assert found.doubt is Doubt.REJECTED


def test_get_of_an_object_that_does_not_fit() -> None:
    """It exists, but what it says is not known."""
    cluster = files("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: blue}\nspec: 5\n")

    class Pod(Struct):
        spec: dict[str, str]

    found = cluster.get(PODS, Pod, name="a", namespace="blue")
    assert isinstance(found, Unread)
    assert found.doubt is Doubt.BROKEN
    assert "f:1: Pod blue/a" in found.message


def test_now() -> None:
    """The caller's clock is the cluster's."""
    assert files("").now() == NOW


def test_nothing_given() -> None:
    """An empty input is a problem, and leaves no kind complete: a dump that failed looks like that."""
    cluster = files("", assume_complete=True)
    assert cluster.problems == ("f: empty",)
    assert isinstance(coverage(cluster, PODS), Incomplete)
