"""Values of Spiderpool's annotations, each with its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from poolwarden.cluster.interface import Complete
from poolwarden.ipam.objects import DEFAULT_NETWORK, NETWORKS
from poolwarden.webhook.answer import Denied
from poolwarden.webhook.knowledge import Knowledge, Known
from poolwarden.webhook.pod.pool_lists import DEFAULT_ROUTE_NIC, IPPOOL, IPPOOLS, ROUTES, SUBNET, SUBNETS
from poolwarden.webhook.settings import DefaultNetwork, RuleSettings
from webhook.reviews import KNOWLEDGE, mutated, reviewed, said

BASE = {DEFAULT_NETWORK: "kube-system/base"}
"""eth0 is Spiderpool's."""
OVERLAY = RuleSettings(default_network=DefaultNetwork.OTHER)
P0, P1, P2 = ({"ipv4": [name]} for name in ("p0", "p1", "p2"))


def on(interface: str, pools: dict[str, Any]) -> dict[str, Any]:
    """An item for a NIC."""
    return {"interface": interface, **pools}


def names(annotations: dict[str, str], key: str = IPPOOLS) -> list[str]:
    """The interfaces in a list, "" where one is missing."""
    return [item.get("interface", "") for item in json.loads(annotations[key])]


TWO = "kube-system/v1,kube-system/v2"

NAMED: list[tuple[str, str, list[Any], list[str]]] = [
    ("all unnamed", TWO, [P0, P1, P2], ["eth0", "net1", "net2"]),
    ("one NIC", "", [P0], ["eth0"]),
    ("mixed: the rest in attach order", TWO, [on("net1", P1), P0, P2], ["net1", "eth0", "net2"]),
    ("mixed: last named", TWO, [P0, P1, on("net2", P2)], ["eth0", "net1", "net2"]),
    ("null is no name", "", [{"interface": None, "ipv4": ["p0"]}], ["eth0"]),
    ("blanks are no name", "", [on("  ", P0)], ["eth0"]),
    ("blanks round a name go", "kube-system/v1", [on(" eth0", P0), on("net1 ", P1)], ["eth0", "net1"]),
    ("another IPAM's NIC has no item", "a,kube-system/v1", [P0, P1], ["eth0", "net2"]),
    ("names that the pod gives", "kube-system/v1@data", [P0, P1], ["eth0", "data"]),
    ("a SpiderMultusConfig without its NAD", "kube-system/made", [P0, P1], ["eth0", "net1"]),
    ("a SpiderMultusConfig of its own making", "kube-system/own", [P0, P1], ["eth0", "net1"]),
    ("a SpiderMultusConfig whose NAD is still empty", "kube-system/early", [P0, P1], ["eth0", "net1"]),
    ("a SpiderMultusConfig without IPAM", "kube-system/bare,kube-system/v1", [P0, P1], ["eth0", "net2"]),
]


@pytest.mark.parametrize(("networks", "items", "after"), [row[1:] for row in NAMED], ids=[row[0] for row in NAMED])
@pytest.mark.parametrize("key", [IPPOOLS, SUBNETS])
def test_items_are_named_in_attach_order_where_that_is_provable(
    key: str, networks: str, items: list[Any], after: list[str]
) -> None:
    """Named items keep their NICs, the others get what is left; nothing is left to refuse, nothing changes twice."""
    result, answer = reviewed({**BASE, NETWORKS: networks, key: json.dumps(items)})
    assert names(result, key) == after
    assert not isinstance(answer, Denied), answer
    assert mutated(result) == result


def test_an_overlay_on_eth0_has_no_item() -> None:
    """Left unnamed, the first item would be recorded as eth0, and net1 would find nothing."""
    result, answer = reviewed({NETWORKS: "kube-system/v1", IPPOOLS: json.dumps([P1])}, settings=OVERLAY)
    assert names(result) == ["net1"]
    assert not isinstance(answer, Denied)


UNPROVABLE: list[tuple[str, dict[str, str], list[Any], str]] = [
    ("default network unknown", {NETWORKS: "kube-system/v1"}, [P0, P1], "eth0"),
    ("a network that is not there", {**BASE, NETWORKS: "kube-system/mystery"}, [P0, P1], "kube-system/mystery"),
    ("a configuration that is no JSON", {**BASE, NETWORKS: "kube-system/odd"}, [P0, P1], "kube-system/odd"),
    ("a configuration that names no IPAM", {**BASE, NETWORKS: "kube-system/silent"}, [P0, P1], "kube-system/silent"),
    ("fewer items than NICs", {**BASE, NETWORKS: TWO}, [P0, P1], "NICs left for them: 3"),
]


@pytest.mark.parametrize(
    ("annotations", "items", "fragment"), [row[1:] for row in UNPROVABLE], ids=[row[0] for row in UNPROVABLE]
)
def test_what_is_not_provable_is_left_and_the_user_is_told_what_to_write(
    annotations: dict[str, str], items: list[Any], fragment: str
) -> None:
    """No guess."""
    result, answer = reviewed({**annotations, IPPOOLS: json.dumps(items)})
    assert names(result) == [""] * len(items)
    assert not isinstance(answer, Denied)
    assert 'write "interface" in each item, as one of: eth0, ' in said(answer)
    assert fragment in said(answer)


def test_old_knowledge_proves_nothing() -> None:
    """The network may be another by now."""
    stale = Knowledge(attachments=Known(KNOWLEDGE.attachments.items, doubt="not heard of for ten minutes"))
    result, answer = reviewed({**BASE, NETWORKS: "kube-system/v1", IPPOOLS: json.dumps([P0, P1])}, stale)
    assert names(result) == ["", ""]
    assert not isinstance(answer, Denied)


REFUSED: list[tuple[str, dict[str, str], Any, str]] = [
    ("empty text", BASE, "", "JSON"),
    ("no JSON", BASE, "p0", "JSON"),
    ("an object", BASE, "{}", "a JSON list is needed"),
    ("null", BASE, "null", "a JSON list is needed"),
    ("empty list", BASE, [], "empty"),
    ("null item", BASE, [None], "null"),
    ("a name", BASE, ["p0"], "a string"),
    ("neither family", BASE, [{"interface": "eth0"}], "neither"),
    ("empty families", BASE, [{"interface": "eth0", "ipv4": [], "ipv6": None}], "neither"),
    ("an empty name", BASE, [{"interface": "eth0", "ipv4": [""]}], "neither"),
    ("a blank name", BASE, [{"interface": "eth0", "ipv4": [" p0"]}], "' p0'"),
    ("a string for a list", BASE, [{"interface": "eth0", "ipv4": "p0"}], "ipv4 is a string"),
    ("a number for a name", BASE, [{"interface": "eth0", "ipv4": [4]}], "ipv4 holds a number"),
    ("a number for an interface", BASE, [{"interface": 0, "ipv4": ["p0"]}], "interface is a number"),
    ("a string for a boolean", BASE, [{"ipv4": ["p0"], "cleangateway": "yes"}], "cleangateway"),
    ("the same pool twice", BASE, [{"interface": "eth0", "ipv4": ["p0", "p0"]}], "'p0' twice"),
    ("the other family", BASE, [{"interface": "eth0", "ipv4": ["six"]}], "IPv6"),
    ("the other family, too", BASE, [{"interface": "eth0", "ipv6": ["p0"]}], "IPv4"),
    ("a long name", BASE, [on("0123456789abcdef", P0)], "16 bytes"),
    ("a template", BASE, [on("net%d", P0)], "'net%d'"),
    ("loopback", BASE, [on("lo", P0)], "'lo'"),
    ("a long pool name", BASE, [{"ipv4": ["x" * 254]}], "a longer one"),
    ("one NIC twice", BASE, [on("eth0", P0), on("eth0", P1)], "'eth0'"),
    ("one NIC twice, with blanks", BASE, [on("eth0", P0), on(" eth0", P1)], "'eth0'"),
    ("no such NIC", BASE, [on("eth0", P0), on("net1", P1)], "no NIC 'net1'"),
    ("more items than NICs", BASE, [P0, P1], "items: 2, NICs of Spiderpool's: 1"),
    ("a NIC of another IPAM", {**BASE, NETWORKS: "a"}, [on("eth0", P0), on("net1", P1)], "'net1'"),
    ("more unnamed than can be", {**BASE, NETWORKS: "a"}, [P0, P1], "items: 2, NICs of Spiderpool's: 1"),
    ("a NIC without item", {**BASE, NETWORKS: "kube-system/v1"}, [on("eth0", P0)], "'net1'"),
    ("mixed, and not provable", {NETWORKS: "kube-system/v1"}, [P0, on("net1", P1)], "some items only"),
]


@pytest.mark.parametrize(
    ("annotations", "items", "fragment"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_can_only_fail_or_leak_is_refused(annotations: dict[str, str], items: Any, fragment: str) -> None:
    """The message names the annotation and quotes what is wrong in it."""
    text = items if isinstance(items, str) else json.dumps(items)
    _, answer = reviewed({**annotations, IPPOOLS: text})
    assert isinstance(answer, Denied), answer
    assert IPPOOLS in answer.message
    assert fragment in answer.message


@pytest.mark.parametrize(
    ("annotation", "text", "fragment"),
    [
        (IPPOOL, "", "JSON"),
        (IPPOOL, "[]", "a JSON object is needed"),
        (IPPOOL, "{}", "neither"),
        (IPPOOL, '{"ipv4":["six"]}', "IPv6"),
        (IPPOOL, '{"ipv4":["p0","p0"]}', "twice"),
        (SUBNET, '{"interface":"eth0"}', "neither"),
        (SUBNETS, '[{"interface":"eth0","ipv4":["s"]},{"interface":"net1","ipv4":["s"]}]', "'s'"),
        (ROUTES, "x", "JSON"),
        (ROUTES, "[5]", "a number"),
        (ROUTES, '[{"dst":"10.0.0.0/16"}]', "gw ''"),
        (ROUTES, '[{"dst":"10.0.0.0","gw":"10.0.0.1"}]', "'10.0.0.0'"),
        (ROUTES, '[{"dst":"10.0.0.0/33","gw":"10.0.0.1"}]', "'10.0.0.0/33'"),
        (ROUTES, '[{"dst":"10.0.0.0/16","gw":"fd00::1"}]', "two families"),
        (ROUTES, '[{"dst":5,"gw":"fd00::1"}]', "dst is a number"),
        (ROUTES, '[{"dst":"10.0.0.0/255.255.0.0","gw":"10.0.0.1"}]', "'10.0.0.0/255.255.0.0'"),
        (ROUTES, '[{"dst":"fe80::/64","gw":"fe80::1%eth0"}]', "'fe80::1%eth0'"),
        (ROUTES, '[{"dst":"fe80::%eth0/64","gw":"fe80::1"}]', "'fe80::%eth0/64'"),
        (DEFAULT_ROUTE_NIC, "net7", "'net7'"),
    ],
)
def test_the_other_annotations_are_refused_for_what_can_only_fail(annotation: str, text: str, fragment: str) -> None:
    """Each by its own rules."""
    _, answer = reviewed({**BASE, NETWORKS: "kube-system/v1", annotation: text})
    assert isinstance(answer, Denied), answer
    assert annotation in answer.message
    assert fragment in answer.message


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (IPPOOL, '{"ipv4":["p0"],"ipv6":["six"]}'),
        (SUBNET, '{"ipv4":["s"]}'),
        (ROUTES, "[]"),
        (ROUTES, '[{"dst":"10.0.0.0/16","gw":"::ffff:10.0.0.1"}]'),
        (IPPOOL, '{"interface":5,"ipv4":["p0"]}'),
        (ROUTES, '[{"dst":"10.0.0.0/16","gw":"10.0.0.1"},{"dst":"fd00::/8","gw":"fd00::1"}]'),
        (DEFAULT_ROUTE_NIC, ""),
        (DEFAULT_ROUTE_NIC, "eth0"),
        (DEFAULT_ROUTE_NIC, "net1"),
        ("ipam.spidernet.io/dns", "{"),
    ],
)
def test_the_other_annotations_are_kept_where_they_can_work(annotation: str, text: str) -> None:
    """Neither changed nor refused."""
    before = {**BASE, NETWORKS: "kube-system/v1@net1", annotation: text}
    result, answer = reviewed(before)
    assert result == before
    assert not isinstance(answer, Denied), answer


@pytest.mark.parametrize(
    ("annotations", "fragment"),
    [
        ({IPPOOLS: json.dumps([on("eth0", {"ipv4": ["p9"]})])}, "'p9' does not exist (yet)"),
        ({IPPOOLS: json.dumps([on("eth0", {"ipv4": ["q*"]})])}, "no IPv4 SpiderIPPool matches 'q*'"),
        ({IPPOOLS: json.dumps([on("eth0", {"ipv6": ["p*"]})])}, "no IPv6 SpiderIPPool matches 'p*'"),
        ({IPPOOLS: json.dumps([on("eth0", {"ipv4": ["[^p]0"]})])}, "matches '[^p]0'"),
        ({IPPOOLS: json.dumps([on("eth0", {**P0, "ipv5": []})])}, "ignores 'ipv5'"),
        ({IPPOOL: json.dumps(on("eth0", P0))}, "ignores 'interface'"),
        ({NETWORKS: "kube-system/v1@net1", IPPOOLS: json.dumps([on("eth0", P0), on("net1", P0)])}, "'p0'"),
        (
            {NETWORKS: "kube-system/v1@net1", IPPOOLS: json.dumps([on("eth0", P0), on("net1", {"ipv4": ["p?"]})])},
            "'p0' is also in item 1",
        ),
        ({NETWORKS: "kube-system/v1@net1", IPPOOL: json.dumps(P0)}, "every NIC (eth0, net1)"),
        ({IPPOOL: json.dumps(P0), IPPOOLS: json.dumps([on("eth0", P0)])}, "Spiderpool ignores it"),
    ],
)
def test_what_may_work_is_warned_about(annotations: dict[str, str], fragment: str) -> None:
    """Allowed, unchanged, and said."""
    before = {**BASE, **annotations}
    result, answer = reviewed(before)
    assert result == before
    assert not isinstance(answer, Denied), answer
    assert fragment in said(answer)


def test_doubt_about_pools_turns_refusals_that_rest_on_them_into_warnings() -> None:
    """A pool of the other family may have been replaced; one that is not known may exist."""
    old = Known(KNOWLEDGE.spider_pools.items, doubt="not heard of for ten minutes")
    doubtful = Knowledge(attachments=Known(KNOWLEDGE.attachments.items, read=Complete()), spider_pools=old)
    items = [on("eth0", {"ipv4": ["six", "p9", "q*"]})]
    _, answer = reviewed({**BASE, IPPOOLS: json.dumps(items)}, doubtful)
    assert not isinstance(answer, Denied)
    assert "IPv6" in said(answer)
    assert "exist" not in said(answer)
    assert "matches" not in said(answer)


def test_where_spiderpool_itself_will_name_the_networks_nothing_is_said_of_nics() -> None:
    """Its webhook writes them after ours has looked."""
    annotations = {**BASE, "cni.spidernet.io/rdma-resource-inject": "x", IPPOOLS: json.dumps([on("net1", P1)])}
    result, answer = reviewed(annotations)
    assert result == annotations
    assert not isinstance(answer, Denied), answer
