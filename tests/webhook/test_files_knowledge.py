"""Knowledge from files, given as text."""

from poolwarden.cluster.documents import parse
from poolwarden.cluster.files import Files
from poolwarden.cluster.inputs import gathered
from poolwarden.webhook.files_knowledge import knowledge_of
from poolwarden.webhook.knowledge import SOURCES, Knowledge, Known

SPIDERPOOL = "spiderpool.spidernet.io/v2beta1"


def knowledge(*documents: str, assume_complete: bool = False) -> Knowledge:
    """What the documents tell."""
    text = "".join(f"---\n{document}\n" for document in documents)
    return knowledge_of(Files(gathered(parse(text.encode(), "f")), assume_complete=assume_complete))


def pool(name: str, subnet: str = "10.0.0.0/24") -> str:
    """A SpiderIPPool."""
    return f"{{apiVersion: {SPIDERPOOL}, kind: SpiderIPPool, metadata: {{name: {name}}}, spec: {{subnet: {subnet}}}}}"


def attachment(namespace: str, name: str) -> str:
    """A NetworkAttachmentDefinition."""
    metadata = f"{{name: {name}, namespace: {namespace}}}"
    return f"{{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {metadata}}}"


def test_nothing_given() -> None:
    """A kind of which nothing was given was not read, and the command that would give it is told."""
    known = knowledge("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: b}}")
    for field, (kind, _) in SOURCES.items():
        found: Known[object] = getattr(known, field)
        assert (found.items, found.whole, found.fresh, found.lacks(("a", "b"))) == ({}, False, False, False)
        assert f"kubectl get {kind.kubectl_name}" in found.doubt


def test_cluster_scoped_kind() -> None:
    """Where objects of a cluster-scoped kind were given, they are all."""
    known = knowledge(pool("p1"), pool("p2")).spider_pools
    assert set(known.items) == {("", "p1"), ("", "p2")}
    assert (known.doubt, known.fresh, known.lacks(("", "p3")), known.lacks(("", "p1"))) == ("", True, True, False)


def test_namespaces_that_were_given() -> None:
    """Of a namespaced kind the namespaces are known of which something was given; what they lack does not exist."""
    known = knowledge(attachment("blue", "a"), attachment("red", "b")).attachments
    assert set(known.items) == {("blue", "a"), ("red", "b")}
    assert (
        known.doubt == "network-attachment-definitions.k8s.cni.cncf.io of no other namespace than blue, red were given"
    )
    assert (known.whole, known.fresh) == (False, True)
    assert (known.lacks(("blue", "b")), known.lacks(("green", "a")), known.lacks(("blue", "a"))) == (True, False, False)


def test_all_assumed_given() -> None:
    """On demand what was not given does not exist."""
    known = knowledge(attachment("blue", "a"), assume_complete=True)
    assert all(getattr(known, field).whole for field in SOURCES)
    assert known.attachments.lacks(("green", "a"))
    assert known.spider_pools.lacks(("", "p1"))


def test_unreadable_object() -> None:
    """An object that cannot be decoded is named with its place, and is not known to be absent; the others are known."""
    known = knowledge(pool("p1"), pool("p2", subnet="5")).spider_pools
    assert set(known.items) == {("", "p1")}
    assert known.doubt.startswith("spiderippools.spiderpool.spidernet.io cannot be read: p2 (f:")
    assert (known.whole, known.fresh) == (False, True)
    assert (known.lacks(("", "p2")), known.lacks(("", "p3"))) == (False, True)


def test_many_unreadable_objects() -> None:
    """The doubt names a few."""
    known = knowledge(*(pool(f"p{number}", subnet="5") for number in range(9))).spider_pools
    assert "cannot be read: p0, p1, p2, ... (f:" in known.doubt
    assert len(known.unreadable) == 9


def test_broken_file() -> None:
    """A file that could not be read to its end leaves every kind in doubt: what it holds is known, what not is unknown."""
    known = knowledge(pool("p1"), "{a: 'b").spider_pools
    assert set(known.items) == {("", "p1")}
    assert (known.whole, known.fresh, known.lacks(("", "p2"))) == (False, False, False)
