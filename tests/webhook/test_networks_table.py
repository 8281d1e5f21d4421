"""Values of the networks annotation, each with its answer."""

from __future__ import annotations

import pytest

from poolwarden.ipam.objects import DEFAULT_NETWORK, NETWORKS
from poolwarden.webhook.answer import Denied
from poolwarden.webhook.settings import RuleSettings
from webhook.reviews import NAMESPACE, mutated, networks, reviewed, said

NAMED = [
    ("a", "a@net1"),
    ("a,b", "a@net1,b@net2"),
    ("a, b", "a@net1,b@net2"),
    (" a ", "a@net1"),
    ("\ta\n,\n b", "a@net1,b@net2"),
    ("a,a", "a@net1,a@net2"),
    ("a@foo,b", "a@foo,b@net2"),
    ("a,b@foo,a", "a@net1,b@foo,a@net3"),
    ("a@", "a@net1"),
    ("a @ foo , b", "a@foo,b@net2"),
    ("a@ net1 ,b@net2", "a@net1,b@net2"),
    ("team-b /a@x", "team-b/a@x"),
    ("team-b/a", "team-b/a@net1"),
    ("/a", "/a@net1"),
    ("team-b / a", "team-b/a@net1"),
    ("b@net1,a", "b@net1,a@net2"),
    ("a@net3,b", "a@net3,b@net2"),
    ('[{"name":"a"}]', '[{"name":"a","interface":"net1"}]'),
    ('[{"name": "a"}]', '[{"name": "a", "interface": "net1"}]'),
    ('[ { "name" : "a" } ]', '[ { "name" : "a", "interface": "net1" } ]'),
    ('[{"name":"a"},{"name":"b"}]', '[{"name":"a","interface":"net1"},{"name":"b","interface":"net2"}]'),
    (
        '[\n  {\n    "name": "a",\n    "namespace": "team-b"\n  }\n]',
        '[\n  {\n    "name": "a",\n    "namespace": "team-b",\n    "interface": "net1"\n  }\n]',
    ),
    ('[{"name":"a","interface":""}]', '[{"name":"a","interface":"net1"}]'),
    ('[{"name":"a","interface":null}]', '[{"name":"a","interface":"net1"}]'),
    ('[{"name":"a","interface":" "}]', '[{"name":"a","interface":"net1"}]'),
    ('[{"interface":" x ","name":"a"}]', '[{"interface":"x","name":"a"}]'),
    ('[{"name":"a","interfaceRequest":" x"}]', '[{"name":"a","interfaceRequest":" x","interface":"x"}]'),
    ('[{"name":"a","Interface":""}]', '[{"name":"a","Interface":"","interface":"net1"}]'),
    ('[{"NAME":"a"}]', '[{"NAME":"a","interface":"net1"}]'),
    ('[{"name":"my.net"}]', '[{"name":"my.net","interface":"net1"}]'),
    ('[{"name":"a","ips":["10.0.0.5/24"]}]', '[{"name":"a","ips":["10.0.0.5/24"],"interface":"net1"}]'),
    ('[{"name":"a","mac":"02:00:00:00:00:01"}]', '[{"name":"a","mac":"02:00:00:00:00:01","interface":"net1"}]'),
    ('[{"name":"a","cni-args":{"x":{"y":[1]}}}]', '[{"name":"a","cni-args":{"x":{"y":[1]}},"interface":"net1"}]'),
    ('[{"name":"\\u0061"}]', '[{"name":"\\u0061","interface":"net1"}]'),
]
KEPT = [
    "",
    "[]",
    "a@net1",
    "a@foo",
    "a@eth1,b@eth2",
    "a@net1 , b@net2",
    "a@UP.er-9_x",
    "a@-x",
    "a@eth0.100",
    "a@123456789012345",
    '[{"name":"a","interface":"net1"}, {"name":"b","namespace":"team-b","interface":"net2"}]',
    '[{"name":"a","interfaceRequest":"x"}]',
    '[{"name":"a","interface":"","Interface":"x"}]',
    '[{"name":"a","interface":"net1","default-route":["10.0.0.1"]}]',
    '[{"name":"a","interface":"net1","default-route":["",null]}]',
    '[{"name":"a","interface":"net1","portMappings":[{"hostPort":80,"containerPort":8080,"protocol":"tcp"},null]}]',
    '[{"name":"a","interface":"net1","bandwidth":{"ingressRate":1000}}]',
    '[{"name":"a","interface":"net1","ips":["10.0.0.5","fd00::5/64"]}]',
    '[{"name":"a","interface":"net1","mac":"02-00-00-00-00-01"}]',
    '[{"name":"a","interface":"net1","infiniband-guid":"02:00:00:00:00:00:00:01"}]',
]
REFUSED = [
    ("a@eth0", "'eth0'"),
    ("a@lo", "'lo'"),
    ("a@0123456789abcdef", "16 bytes"),
    ("a@ééééééé9x", "16 bytes"),
    ("a@é", "'é'"),
    ("a@net%d", "'net%d'"),
    ("a@x%", "'%'"),
    ("a@.", "'.'"),
    ("a@..", "'..'"),
    ("a@all", "'all'"),
    ("a@default", "'default'"),
    ("a@x:y", "':'"),
    ("a@x y", "' '"),
    ("a@x/y", "'/'"),
    ("a@data,b@data", "'data'"),
    ("a@net2,b", "'net2'"),
    ("a,b@net1", "'net1'"),
    (" ", "empty"),
    (",", "empty"),
    ("a,,b", "item 2"),
    ("a,", "item 2"),
    ("@x", "no network"),
    ("team-b/", "no network"),
    ("a@b@c", "more than one '@'"),
    ("a/b/c", "more than one '/'"),
    ("my.net", "'my.net'"),
    ("Upper", "'Upper'"),
    ("-a", "'-a'"),
    ("a_b", "'a_b'"),
    ("[", "JSON"),
    ('{"name":"a"}', "a JSON list is needed"),
    ('"a"', "a JSON list is needed"),
    ('[{"name":"a"}', "JSON"),
    ('[{"name":"a"},]', "JSON"),
    ("[{'name':'a'}]", "JSON"),
    ("[null]", "null"),
    ('["a"]', "a string"),
    ("[1]", "a number"),
    ("[{}]", '"name"'),
    ('[{"name":""}]', '"name"'),
    ('[{"name":5}]', "name is a number"),
    ('[{"name":"team-b/a"}]', "'team-b/a'"),
    ('[{"name":"a","namespace":"Team"}]', "'Team'"),
    ('[{"name":"a","interface":5}]', "interface is a number"),
    ('[{"name":"a","interface":"eth0"}]', "'eth0'"),
    ('[{"name":"a","interface":"a b"}]', "' '"),
    ('[{"name":"a","interface":"x"},{"name":"b","interface":"x"}]', "'x'"),
    ('[{"name":"a","ips":"10.0.0.5"}]', "ips is a string"),
    ('[{"name":"a","ips":["10.0.0.256"]}]', "'10.0.0.256'"),
    ('[{"name":"a","ips":["10.0.0.5/33"]}]', "'10.0.0.5/33'"),
    ('[{"name":"a","ips":[5]}]', "ips holds a number"),
    ('[{"name":"a","mac":"02:00"}]', "'02:00'"),
    ('[{"name":"a","mac":"zz:00:00:00:00:01"}]', "zz"),
    ('[{"name":"a","infiniband-guid":"x"}]', "infiniband-guid"),
    ('[{"name":"a","default-route":["x"]}]', "default-route"),
    ('[{"name":"a","portMappings":{}}]', "portMappings"),
    ('[{"name":"a","bandwidth":[]}]', "bandwidth"),
    ('[{"name":"a","bandwidth":{"ingressRate":"x"}}]', "bandwidth"),
    ('[{"name":"a","bandwidth":{"ingressRate":1.5}}]', "bandwidth"),
    ('[{"name":"a","portMappings":[{"hostPort":"x"}]}]', "portMappings"),
    ('[{"name":"a","portMappings":[{"hostIP":5}]}]', "portMappings"),
    ('[{"name":"a","portMappings":[5]}]', "portMappings"),
    ('[{"name":"a","cni-args":{"x":[1e999]}}]', "cni-args"),
    ("a," * 1024 + "b", "1025 items"),
    ("[" + '{"name":"a"},' * 1024 + '{"name":"b"}]', "1025 items"),
]


@pytest.mark.parametrize(("text", "after"), NAMED)
def test_unnamed_networks_get_the_names_that_multus_would_give_them(text: str, after: str) -> None:
    """The form is kept; the names are those of the positions; nothing is left to refuse."""
    result, answer = reviewed(networks(text))
    assert result[NETWORKS] == after
    assert not isinstance(answer, Denied), answer


@pytest.mark.parametrize("text", KEPT)
def test_explicit_networks_are_kept_to_the_byte(text: str) -> None:
    """Neither changed nor refused."""
    result, answer = reviewed(networks(text))
    assert result[NETWORKS] == text
    assert not isinstance(answer, Denied), answer


@pytest.mark.parametrize(("text", "fragment"), REFUSED)
def test_what_can_only_fail_is_refused_with_the_annotation_and_the_value(text: str, fragment: str) -> None:
    """The message names the annotation and quotes what is wrong in it."""
    _, answer = reviewed(networks(text))
    assert isinstance(answer, Denied), answer
    assert NETWORKS in answer.message
    assert fragment in answer.message


@pytest.mark.parametrize("text", [text for text, _ in NAMED])
def test_naming_is_idempotent(text: str) -> None:
    """What was named is not touched again."""
    once = mutated(networks(text))
    assert mutated(once) == once


@pytest.mark.parametrize(("count", "after"), [(0, "a@net1,b@net2"), (1, "a@net2,b@net3"), (3, "a@net4,b@net5")])
def test_cluster_wide_default_networks_take_the_first_names(count: int, after: str) -> None:
    """A setting says how many precede."""
    result, answer = reviewed(networks("a,b"), settings=RuleSettings(default_networks=count))
    assert result[NETWORKS] == after
    assert not isinstance(answer, Denied)


def test_a_name_of_a_cluster_wide_default_network_is_taken() -> None:
    """The annotation cannot name a NIC as a default network is named already."""
    _, answer = reviewed(networks("a@net1"), settings=RuleSettings(default_networks=1))
    assert isinstance(answer, Denied)
    assert "'net1'" in answer.message


@pytest.mark.parametrize(
    ("text", "fragment"),
    [("", "0 networks"), ("a,b", "2 networks"), ("[null]", "null"), ("base@x%", "'%'"), ("[]", "0 networks")],
)
def test_a_default_network_that_multus_cannot_use_is_refused(text: str, fragment: str) -> None:
    """Exactly one network is needed."""
    _, answer = reviewed({DEFAULT_NETWORK: text})
    assert isinstance(answer, Denied)
    assert DEFAULT_NETWORK in answer.message
    assert fragment in answer.message


@pytest.mark.parametrize("text", ["nowhere", '[{"name":"nowhere"}]', "kube-system/nothing@x"])
def test_a_network_that_does_not_exist_is_warned_about(text: str) -> None:
    """It may come later."""
    _, answer = reviewed(networks(text))
    assert not isinstance(answer, Denied)
    assert "does not exist (yet)" in said(answer)


def test_keys_that_multus_ignores_are_warned_about() -> None:
    """A slip of the pen would otherwise stay unseen."""
    _, answer = reviewed(networks('[{"name":"a","interface":"x","ifname":"y"}]'))
    assert "'ifname'" in said(answer)


def test_the_default_networks_are_not_attached_in_multus_own_namespaces() -> None:
    """There the pod's own begin at net1."""
    system = RuleSettings(default_networks=1, system_namespaces=frozenset({NAMESPACE}))
    assert mutated(networks("a"), settings=system)[NETWORKS] == "a@net1"


def test_what_an_item_holds_beside_its_name_is_not_quoted() -> None:
    """A CNI argument may be a secret."""
    _, answer = reviewed(networks('[{"name":"a","interface":"eth0","cni-args":{"password":"hunter2"}}]'))
    assert isinstance(answer, Denied)
    assert "hunter2" not in answer.message


@pytest.mark.parametrize("text", ["a@net2,b", "a@x,b@x", "a@eth0,b", '[{"name":"a","interface":"net2"},{"name":"b"}]'])
def test_where_two_nics_would_have_one_name_nothing_is_written(text: str) -> None:
    """The refusal quotes what its author wrote."""
    assert mutated(networks(text))[NETWORKS] == text
