"""What Multus itself makes of annotations: the facts that the webhook's promises stand on."""

from __future__ import annotations

import json

import pytest

from controlplane.multus import DEFAULT_NETWORK, NETWORKS, Multus, Nad, Named, Panicked, Pod, Refused

CHAIN = json.dumps({"cniVersion": "0.3.1", "name": "chain", "plugins": [{"type": "bridge"}, {"type": "tuning"}]})


@pytest.mark.parametrize(
    ("networks", "names"),
    [
        ("a,b", ("net1", "net2")),
        (" a , b ", ("net1", "net2")),
        ("a,a", ("net1", "net2")),
        ("other/a,/b", ("net1", "net2")),
        ("a@foo,b", ("foo", "net2")),
        ("a@ foo ,b", ("foo", "net2")),
        ("a@,b", ("net1", "net2")),
        ("x@net2,y", ("net2", "net2")),
        ("x@eth0", ("eth0",)),
        ("x@net%d", ("net%d",)),
        ('[{"name": "a"}, {"name": "b", "interface": "foo"}, {"name": "c"}]', ("net1", "foo", "net3")),
        ('[{"name": "a", "interfaceRequest": "old"}]', ("old",)),
        ('[{"name": "a", "interface": "new", "interfaceRequest": "old"}]', ("new",)),
        ('[{"name": "a.b"}]', ("net1",)),
        ('[{"name": "a", "ips": ["192.0.2.7/24"], "mac": "02:00:00:00:00:01"}]', ("net1",)),
        ('[{"name": "a", "default-route": ["192.0.2.1"]}]', ("net1",)),
        ("[]", ()),
        ("", ()),
    ],
)
def test_names(multus: Multus, networks: str, names: tuple[str, ...]) -> None:
    """A name that is written is given; without one it is the position; that two are the same is not noticed."""
    assert multus.names_of([Pod({NETWORKS: networks})]) == [Named(("eth0", *names))]


@pytest.mark.parametrize(
    ("networks", "reason"),
    [
        (" ", "cannot find a network-attachment-definition ()"),
        ("a,", "cannot find a network-attachment-definition ()"),
        ("a.b", "mismatch @ 'a.b'"),
        ("A", "mismatch @ 'A'"),
        ("a@b@c", "failed at '@'"),
        ("a/b/c", "failed at '/'"),
        ("a@sixteen-bytes-xx", "interface name"),
        ("a@b c", "interface name"),
        ("a@b:c", "whitespace characters"),
        ("a@..", "interface name is"),
        ('{"name": "a"}', "JSON"),
        ('"a"', "JSON"),
        ('[{"name": "a", "interface": " foo"}]', "whitespace characters"),
        ('[{"name": "a", "ips": ["nonsense"]}]', "nonsense"),
        ('[{"name": "a", "mac": "nonsense"}]', "nonsense"),
    ],
)
def test_refusals(multus: Multus, networks: str, reason: str) -> None:
    """What Multus or libcni does not take ends the ADD with a reason."""
    (outcome,) = multus.names_of([Pod({NETWORKS: networks})])
    assert isinstance(outcome, Refused), outcome
    assert reason in outcome.reason


def test_panic_is_an_answer(multus: Multus) -> None:
    """A null in the list crashes Multus; the next pod is answered as if nothing had happened."""
    outcomes = multus.names_of([Pod({NETWORKS: "[null]"}), Pod({NETWORKS: "a"})])
    assert outcomes == [
        Panicked("runtime error: invalid memory address or nil pointer dereference"),
        Named(("eth0", "net1")),
    ]


def test_default_network_of_a_pod(multus: Multus) -> None:
    """The annotation for the default network replaces the cluster's, and may rename eth0; it is no list."""
    assert multus.names_of(
        [
            Pod({DEFAULT_NETWORK: "blue", NETWORKS: "a"}),
            Pod({DEFAULT_NETWORK: "blue@lan", NETWORKS: "a"}),
        ]
    ) == [Named(("eth0", "net1")), Named(("lan", "net1"))]
    (outcome,) = multus.names_of([Pod({DEFAULT_NETWORK: "blue,red"})])
    assert isinstance(outcome, Refused)
    assert "more than one default network" in outcome.reason


def test_default_networks_of_the_cluster(multus: Multus) -> None:
    """Networks that every pod gets come first and take numbers; pods of kube-system do not get them."""
    annotations = {NETWORKS: "a,b@foo,c"}
    assert multus.names_of(
        [
            Pod(annotations, default_networks=2),
            Pod(annotations, default_networks=2, namespace="kube-system"),
        ]
    ) == [Named(("eth0", "net1", "net2", "net3", "foo", "net5")), Named(("eth0", "net1", "foo", "net3"))]


def test_definitions_decide(multus: Multus) -> None:
    """Only the given NetworkAttachmentDefinitions are found; a chain of plugins is one attachment."""
    nads = [Nad("default", "a", CHAIN), Nad("other", "b")]
    pods = [Pod({NETWORKS: text}, nads=nads) for text in ("a,other/b", "b", "other/a")]
    fine, *missing = multus.names_of(pods)
    assert fine == Named(("eth0", "net1", "net2"))
    assert all(isinstance(outcome, Refused) and "not found" in outcome.reason for outcome in missing)


def test_namespace_is_the_pods_own(multus: Multus) -> None:
    """Without a namespace a network is looked for in that of the pod."""
    assert multus.names_of([Pod({NETWORKS: "a"}, namespace="team", nads=[Nad("team", "a")])]) == [
        Named(("eth0", "net1"))
    ]
