import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from poolwarden.cluster.events import Event, Reference, Type, event_body, send
from poolwarden.cluster.files import Files
from poolwarden.cluster.inputs import Reading
from poolwarden.cluster.interface import Outdated, Written
from poolwarden.cluster.kinds import EVENTS

NOON = datetime(2026, 1, 10, 12, 0, 0, 7, tzinfo=UTC)
POOL = Reference("spiderpool.spidernet.io/v2beta1", "SpiderIPPool", "blue", uid="u1")
POD = Reference("v1", "Pod", "web-0", "shop", "u2")
LEAK = Event(Type.WARNING, "LeakDetected", "Sweep", "10.0.0.1 is leaked", POOL, POD)
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def test_body() -> None:
    """An event says what happened to which object, who tells it, and when to the microsecond."""
    body = event_body(LEAK, instance="gc-0", when=NOON)
    name = body["metadata"].pop("name")
    assert re.fullmatch(r"blue\.[0-9a-f]{16}", name)
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "type": "Warning",
        "reason": "LeakDetected",
        "action": "Sweep",
        "note": "10.0.0.1 is leaked",
        "regarding": {
            "apiVersion": "spiderpool.spidernet.io/v2beta1",
            "kind": "SpiderIPPool",
            "name": "blue",
            "uid": "u1",
        },
        "related": {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "namespace": "shop", "uid": "u2"},
        "eventTime": "2026-01-10T12:00:00.000007Z",
        "reportingController": "poolwarden.dev/gc",
        "reportingInstance": "gc-0",
    }


def test_namespace() -> None:
    """An event lives with the object that it is about; one about a cluster-scoped object in `default`."""
    assert event_body(structs.replace(LEAK, regarding=POD), instance="", when=NOON)["metadata"]["namespace"] == "shop"
    assert "related" not in event_body(structs.replace(LEAK, related=None), instance="", when=NOON)


def test_names() -> None:
    """The same event has the same name; any other, or one a microsecond later, has another."""
    events = [
        LEAK,
        structs.replace(LEAK, note="x"),
        structs.replace(LEAK, reason="X"),
        structs.replace(LEAK, related=None),
    ]
    names = [event_body(event, instance="gc-0", when=NOON)["metadata"]["name"] for event in events]
    names.append(event_body(LEAK, instance="gc-0", when=NOON.replace(microsecond=8))["metadata"]["name"])
    assert len(set(names)) == 5
    assert event_body(LEAK, instance="gc-0", when=NOON)["metadata"]["name"] == names[0]


@given(st.text(max_size=300) | st.from_regex(r"[a-z.-]{240,253}", fullmatch=True))
def test_names_are_subdomains(name: str) -> None:
    """Whatever the object is called, the event's name is one that the API server takes."""
    body = event_body(structs.replace(LEAK, regarding=structs.replace(POOL, name=name)), instance="", when=NOON)
    assert SUBDOMAIN.fullmatch(body["metadata"]["name"])
    assert len(body["metadata"]["name"]) <= 253
    assert body["regarding"]["name"] == name


@given(st.text())
def test_short_notes_are_kept(note: str) -> None:
    """What fits is not touched."""
    if len(note.encode()) <= 1024:
        assert event_body(structs.replace(LEAK, note=note), instance="", when=NOON)["note"] == note


@pytest.mark.parametrize("character", ["x", "é", "€", "😀"])
def test_long_notes_are_cut(character: str) -> None:
    """At most 1,024 bytes, cut between characters, with a sign of it."""
    note = event_body(structs.replace(LEAK, note=character * 2000), instance="", when=NOON)["note"]
    assert 1020 <= len(note.encode()) <= 1024
    assert note == character * (len(note) - 1) + "…"


def test_long_instances_are_cut() -> None:
    """The API server takes 128 characters of an instance."""
    assert event_body(LEAK, instance="x" * 200, when=NOON)["reportingInstance"] == "x" * 128


def test_send() -> None:
    """An event is created in its namespace; its failure is an outcome."""
    cluster = Files(Reading((), ()), clock=lambda: NOON)
    assert isinstance(send(cluster, LEAK, instance="gc-0"), Written)
    assert isinstance(send(cluster, LEAK, instance="gc-0"), Outdated)
    assert len(cluster.list(EVENTS, dict, namespace="default").items) == 1
