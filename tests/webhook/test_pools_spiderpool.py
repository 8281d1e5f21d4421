"""SpiderIPPool and SpiderReservedIP."""

from __future__ import annotations

from time import perf_counter

import pytest

from webhook.pool_objects import NOBODY, Object, holding, judged, knowing, nad, named, spider, written

RANGE = "10.6.0.10-10.6.0.20"
ON_ETH1 = nad({"type": "spiderpool"}, "one", type="macvlan", master="eth1")
ON_ETH2 = nad({"type": "spiderpool"}, "two", type="macvlan", master="eth2")


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        ({"ips": [RANGE]}, "allowed"),
        ({}, "allowed"),
        ({"ips": None}, "allowed"),
        ({"ips": ["10.6.0.20-10.6.0.10"]}, "denied: spec.ips[0]: '10.6.0.20-10.6.0.10' is reversed"),
        ({"ips": [RANGE, "10.7.0.1"]}, "denied: spec.ips[1]: '10.7.0.1' is not within 10.6.0.0/24"),
        ({"ips": ["10.6.0.250-10.6.1.5"]}, "denied: spec.ips[0]: '10.6.0.250-10.6.1.5' is not within 10.6.0.0/24"),
        ({"ips": ["fd00::1"]}, "denied: spec.ips[0]: 'fd00::1' is IPv6, but 10.6.0.0/24 is IPv4"),
        ({"ips": ["10.6.0.1-fd00::1"]}, "denied: spec.ips[0]: '10.6.0.1-fd00::1' mixes IPv4 and IPv6"),
        ({"ips": ["10.6.0.0/28"]}, "denied: spec.ips[0]: '10.6.0.0/28' is no IP address"),
        ({"ips": ["10.6.0.256"]}, "denied: spec.ips[0]: '10.6.0.256' is no IP address; allowed: an add"),
        ({"ips": [""]}, "denied: spec.ips[0]: '' is no IP address; allowed: an address, or first-last"),
        ({"ips": [5]}, "denied: spec.ips[0]: 5 is not allowed; allowed: a string"),
        ({"ips": "10.6.0.1"}, "denied: spec.ips: '10.6.0.1' is not allowed; allowed: a list or null"),
        ({"ips": [RANGE], "excludeIPs": ["10.6.1.1"]}, "denied: spec.excludeIPs[0]: '10.6.1.1' is not within"),
        ({"ips": [RANGE], "gateway": "10.6.0.1"}, "allowed"),
        ({"ips": [RANGE], "gateway": "10.6.0.15"}, "denied: spec.gateway: '10.6.0.15' is one of spec.ips"),
        ({"ips": [RANGE], "excludeIPs": ["10.6.0.15"], "gateway": "10.6.0.15"}, "allowed"),
        ({"gateway": "10.6.1.1"}, "denied: spec.gateway: '10.6.1.1' is not within 10.6.0.0/24"),
        ({"gateway": "fd00::1"}, "denied: spec.gateway: 'fd00::1' is IPv6, but 10.6.0.0/24 is IPv4"),
        ({"gateway": "10.6.0.1/24"}, "denied: spec.gateway: '10.6.0.1/24' is no IP address; allowed: an address"),
        ({"routes": [{"dst": "10.9.0.0/16", "gw": "10.6.0.1"}]}, "allowed"),
        ({"routes": [{"dst": "10.9.0.0", "gw": "10.6.0.1"}]}, "denied: spec.routes[0].dst: '10.9.0.0' has no valid"),
        ({"routes": [{"dst": "10.9.0.0/16", "gw": "10.7.0.1"}]}, "denied: spec.routes[0].gw: '10.7.0.1' is not within"),
        ({"routes": [{"dst": "10.9.0.0/16"}]}, "denied: spec.routes[0].gw: '' is no IP address"),
        ({"routes": [{"dst": "fd00::/8", "gw": "10.6.0.1"}]}, "denied: spec.routes[0].dst: 'fd00::/8' is of another"),
        (
            {"routes": [{"dst": "0.0.0.0/0", "gw": "10.6.0.1"}]},
            "denied: spec.routes[0].dst: '0.0.0.0/0' is the default",
        ),
        (
            {"routes": [{"dst": "10.9.0.0/16", "gw": "10.6.0.1"}, {"dst": "10.9.0.0/16", "gw": "10.6.0.2"}]},
            "denied: spec.routes[1].dst: '10.9.0.0/16' has a route already",
        ),
        ({"ipVersion": 6}, "denied: spec.ipVersion: 6 is not allowed: 10.6.0.0/24 is IPv4; allowed: 4"),
        ({"ipVersion": "4"}, "denied: spec.ipVersion: '4' is not allowed; allowed: a whole number or null"),
        ({"subnet": "10.6.0.5/24"}, "denied: spec.subnet: '10.6.0.5/24' is not the canonical form; write 10.6.0.0/24"),
        ({"subnet": "FD00::/64"}, "denied: spec.subnet: 'FD00::/64' is not the canonical form; write fd00::/64"),
        ({"subnet": "10.6.0.0"}, "denied: spec.subnet: '10.6.0.0' has no valid prefix"),
        ({"subnet": ""}, "denied: spec.subnet: '' is no network"),
        ({"subnet": "x", "ips": ["10.6.0.1", "fd00::1"]}, "denied: spec.subnet: 'x' is no network"),
    ],
)
def test_a_pool_by_itself(spec: Object, answer: str) -> None:
    """Refused is what Spiderpool cannot hand out as written; the message names field, value and what is allowed."""
    assert judged("pool", spider(**spec)).startswith(answer)


def test_all_faults_are_told() -> None:
    """Each in its place, so that they are mended at once."""
    told = judged("pool", spider(ips=["10.6.0.9-10.6.0.1", "10.7.0.1"], gateway="x"))
    assert all(part in told for part in ("spec.ips[0]", "; spec.ips[1]", "; spec.gateway"))


OTHER = spider("red", ips=["10.6.0.15-10.6.0.40"], excludeIPs=["10.6.0.15-10.6.0.17"])


@pytest.mark.parametrize(
    ("pool", "answer"),
    [
        (spider(ips=[RANGE]), "denied: spec.ips: SpiderIPPool red holds 10.6.0.18-10.6.0.20, too"),
        (spider(ips=[RANGE], excludeIPs=["10.6.0.18-10.6.0.20"]), "allowed"),
        (spider(ips=["10.6.0.10-10.6.0.17"]), "allowed"),
        (spider(ips=["10.6.0.1-10.6.0.2", "10.6.0.40"]), "denied: spec.ips: SpiderIPPool red holds 10.6.0.40, too"),
        (spider("red", ips=["10.6.0.15-10.6.0.40"]), "allowed"),
        (spider("wide", "10.0.0.0/8", ips=["10.6.0.18"]), "denied: spec.ips: SpiderIPPool red holds 10.6.0.18, too"),
    ],
)
def test_overlap_with_another_pool(pool: Object, answer: str) -> None:
    """What two pools can hand out may not overlap, whatever their labels and subnets say."""
    assert judged("pool", pool, knowledge=knowing(pools=[OTHER])).startswith(answer)


def test_overlap_on_networks_apart() -> None:
    """Other masters are other networks: a warning. One master, or one that is not known, is the same network."""
    here, there = spider(ips=[RANGE], multusName=["team-a/one"]), {**OTHER["spec"], "multusName": ["two"]}
    other = named("red", **there)
    assert judged("pool", here, knowledge=knowing(pools=[other], nads=[ON_ETH1, ON_ETH2])).startswith(
        "warned: spec.ips: SpiderIPPool red holds 10.6.0.18-10.6.0.20, too, on another network"
    )
    assert judged("pool", here, knowledge=knowing(pools=[other], nads=[ON_ETH1])).startswith("denied")
    same = nad({"type": "spiderpool"}, "two", type="macvlan", master="eth1")
    assert judged("pool", here, knowledge=knowing(pools=[other], nads=[ON_ETH1, same])).startswith("denied")
    naming = nad({"type": "spiderpool", "default_ipv4_ippool": ["re*"]}, "two", type="macvlan", master="eth2")
    assert judged("pool", here, knowledge=knowing(pools=[OTHER], nads=[ON_ETH1, naming])).startswith("warned")


def test_another_network_is_judged_as_if_all_addresses_were_new() -> None:
    """Overlaps that were harmless may no more be; those that stand as before stay, as does an overlap of old."""
    other = named("red", **{**OTHER["spec"], "multusName": ["two"]})
    cluster = knowing(pools=[other], nads=[ON_ETH1, ON_ETH2])
    apart, same, unbound = (spider(ips=[RANGE], multusName=names) for names in (["one"], ["two"], None))
    refusal = "denied: spec.ips: SpiderIPPool red holds 10.6.0.18-10.6.0.20, too; an address may be in one pool only"
    assert judged("pool", same, knowledge=cluster) == refusal
    assert judged("pool", same, apart, cluster) == refusal
    assert judged("pool", unbound, apart, cluster) == refusal
    assert judged("pool", apart, apart, cluster) == "allowed"
    assert judged("pool", apart, same, cluster).startswith(
        "warned: spec.ips: SpiderIPPool red holds 10.6.0.18-10.6.0.2"
    )
    assert judged("pool", unbound, same, cluster) == "allowed"
    assert judged("pool", spider(ips=[RANGE, "10.6.0.30"], multusName=["two"]), apart, cluster) == (
        "denied: spec.ips: SpiderIPPool red holds 10.6.0.30, too; an address may be in one pool only; "
        "spec.ips: SpiderIPPool red holds 10.6.0.18-10.6.0.20, too; an address may be in one pool only"
    )


def test_doubt_about_other_pools_warns() -> None:
    """What may be old refuses nothing, and what may be missing is said."""
    told = judged("pool", spider(ips=[RANGE]), knowledge=knowing("is 90 s old", pools=[OTHER]))
    assert told.startswith(
        "warned: spec.ips: overlap with other SpiderIPPools could not be checked in full: is 90 s old"
    )
    assert "SpiderIPPool red holds 10.6.0.18-10.6.0.20, too" in told


@pytest.mark.parametrize(
    ("cluster", "answer"),
    [
        (
            {"whereabouts": [named("10.6.0.0-28", "kube-system", range="10.6.0.0/28")]},
            "warned: spec.ips: whereabouts IPPool kube-system/10.6.0.0-28 (10.6.0.0/28) hands out 10.6.0.10-10.6.0.14, too",
        ),
        ({"whereabouts": [named("x", "kube-system", range="10.6.0.20/31")]}, "allowed"),
        (
            {
                "whereabouts": [named("10.6.0.0-24", "kube-system", range="10.6.0.0/24")],
                "nads": [nad({"type": "whereabouts", "range": "10.6.0.0/24", "range_start": "10.6.0.100"})],
            },
            "allowed",
        ),
        (
            {"nads": [nad({"type": "whereabouts", "range": "10.6.0.0/24", "range_end": "10.6.0.12"})]},
            "warned: spec.ips: the whereabouts range of NetworkAttachmentDefinition team-a/net hands out 10.6.0.10-10.6.0.12",
        ),
        (
            {"neon": [named("n", "vm", range="10.6.0.20/32")]},
            "warned: spec.ips: neon IPPool vm/n (10.6.0.20/32) hands out 10.6.0.20, too",
        ),
        ({"neon": [named("n", "vm", range="nonsense")]}, "allowed"),
        (
            {"nads": [nad({"ipRanges": [{"range": "10.6.0.0/24", "range_end": "10.6.0.10"}]})]},
            "warned: spec.ips: the neon range of NetworkAttachmentDefinition team-a/net hands out 10.6.0.10, too",
        ),
    ],
)
def test_overlap_with_another_ipam_warns(cluster: dict[str, list[Object]], answer: str) -> None:
    """Isolated networks may hold the same addresses by intent; a NAD's bounds count where there is one."""
    assert judged("pool", spider(ips=[RANGE]), knowledge=knowing(**cluster)).startswith(answer)


def test_a_pool_and_its_attachments_are_told_once() -> None:
    """The attachments say what the pool hands out; the pool is what is named."""
    cluster = knowing(
        whereabouts=[named("10.6.0.0-24", "kube-system", range="10.6.0.0/24")],
        nads=[nad({"type": "whereabouts", "range": "10.6.0.0/24", "range_end": "10.6.0.12"})],
    )
    told = judged("pool", spider(ips=[RANGE]), knowledge=cluster)
    assert told == (
        "warned: spec.ips: whereabouts IPPool kube-system/10.6.0.0-24 (10.6.0.0/24) hands out 10.6.0.10-10.6.0.12, too: "
        "harmless on isolated networks only"
    )


def test_an_address_in_use_stays() -> None:
    """Its pod is named, whether its range or an exclusion takes the address away; a free one may go."""
    old = holding(spider(ips=[RANGE]), {"10.6.0.20": "default/web-0", "10.6.0.21": "default/long-outside"})
    assert judged("pool", spider(ips=["10.6.0.10-10.6.0.19"]), old) == (
        "denied: spec.ips: 10.6.0.20 is in use by pod default/web-0 and cannot leave the pool"
    )
    assert judged("pool", spider(ips=[RANGE], excludeIPs=["10.6.0.20"]), old).startswith("denied: spec.ips: 10.6.0.20")
    assert judged("pool", spider(ips=["10.6.0.15-10.6.0.30"]), old) == "allowed"


def test_many_addresses_in_use_are_summed_up() -> None:
    """A denial stays readable."""
    old = holding(spider(ips=[RANGE]), {f"10.6.0.{n}": f"default/p{n}" for n in range(10, 20)})
    assert judged("pool", spider(ips=[]), old).endswith("; spec.ips: 5 more addresses in use cannot leave the pool")


def test_records_that_cannot_be_read_warn() -> None:
    """Whether an address is in use is then not known."""
    old = {**spider(ips=[RANGE]), "status": {"allocatedIPs": "{"}}
    assert judged("pool", spider(ips=[]), old).startswith("warned: spec.ips: whether an address in use leaves the pool")


OLD_FAULTS = spider(subnet="10.6.0.5/24", ips=["10.6.0.9-10.6.0.5", "10.6.0.50"], gateway="10.6.0.50", ipVersion=4)


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({}, "allowed"),
        ({"ips": ["10.6.0.60", "10.6.0.9-10.6.0.5", "10.6.0.50"]}, "allowed"),
        ({"ips": ["10.6.0.50"]}, "allowed"),
        ({"ips": ["10.6.0.9-10.6.0.4", "10.6.0.50"]}, "denied: spec.ips[0]: '10.6.0.9-10.6.0.4' is reversed"),
        ({"gateway": "10.9.0.1"}, "denied: spec.gateway: '10.9.0.1' is not within"),
    ],
)
def test_only_what_changes_is_judged(change: Object, answer: str) -> None:
    """A fault that was there before stays, at whatever place of its list."""
    new = spider(**{**OLD_FAULTS["spec"], **change})
    assert judged("pool", new, OLD_FAULTS).startswith(answer)


def test_an_overlap_of_old_may_shrink() -> None:
    """Only added addresses are held against a pool."""
    cluster = knowing(pools=[OTHER])
    old = spider(ips=["10.6.0.10-10.6.0.30"])
    assert judged("pool", spider(ips=["10.6.0.10-10.6.0.25"]), old, cluster) == "allowed"
    assert judged("pool", spider(ips=["10.6.0.10-10.6.0.31"]), old, cluster) == (
        "denied: spec.ips: SpiderIPPool red holds 10.6.0.31, too; an address may be in one pool only"
    )


def test_an_old_value_of_the_wrong_type_stays() -> None:
    """What could not be decoded before and cannot now is no new fault; another one is."""
    old = spider(ips=5)
    assert judged("pool", {**spider(ips=5), "metadata": {"name": "blue", "labels": {"a": "b"}}}, old) == "allowed"
    assert judged("pool", spider(ips=6), old).startswith("denied: spec.ips: 6 is not allowed; allowed: a list")


@pytest.mark.parametrize(
    ("ips", "left"),
    [
        (["10.6.0.3", "10.6.0.1", "10.6.0.2"], ["10.6.0.1-10.6.0.3"]),
        (["10.6.0.5-10.6.0.9", "10.6.0.7-10.6.0.12", "10.6.0.1"], ["10.6.0.1", "10.6.0.5-10.6.0.12"]),
        (["10.6.0.5-10.6.0.5"], ["10.6.0.5"]),
        ([" 10.6.0.5 - 10.6.0.6 "], ["10.6.0.5-10.6.0.6"]),
        ([RANGE], [RANGE]),
        ([], []),
        (["10.6.0.3", "10.6.0.9-10.6.0.5"], ["10.6.0.3", "10.6.0.9-10.6.0.5"]),
        (["10.6.0.3", "10.6.0.2", "10.9.0.1"], ["10.6.0.3", "10.6.0.2", "10.9.0.1"]),
    ],
)
def test_lists_are_written_in_one_form(ips: list[str], left: list[str]) -> None:
    """Canonical, merged and sorted; a list with a fault is left for the refusal to quote."""
    assert written("pool", spider(ips=ips, excludeIPs=ips)) == spider(ips=left, excludeIPs=left)


def test_ipv6_is_written_in_one_form() -> None:
    """Lower case, compressed."""
    pool = spider(subnet="fd00::/64", ips=["FD00:0:0::B", "fd00::a"])
    assert written("pool", pool) == spider(subnet="fd00::/64", ips=["fd00::a-fd00::b"])


def test_a_list_that_the_update_leaves_alone_is_not_rewritten() -> None:
    """Labelling an old pool changes the label only."""
    old = spider(ips=["10.6.0.2", "10.6.0.1"])
    assert written("pool", old, old) == old


def test_a_v6_subnet_costs_no_more_than_an_address() -> None:
    """Sets are ranges, never enumerated."""
    whole = spider("other", "fd00::/64", ips=["fd00::-fd00::ffff:ffff:ffff:ffff"])
    start = perf_counter()
    told = judged(
        "pool", spider(subnet="fd00::/64", ips=["fd00::1:0-fd00::ffff:0:0:0"]), knowledge=knowing(pools=[whole])
    )
    assert told.startswith("denied: spec.ips: SpiderIPPool other holds fd00::1:0-fd00::ffff:0:0:0, too")
    assert perf_counter() - start < 1


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        ({"ips": ["10.6.0.1", "10.6.0.9-10.6.0.12"]}, "allowed"),
        ({}, "allowed"),
        ({"ips": ["10.6.0.9-10.6.0.5"]}, "denied: spec.ips[0]: '10.6.0.9-10.6.0.5' is reversed"),
        ({"ips": ["10.6.0.1", "fd00::1"]}, "denied: spec.ips[1]: 'fd00::1' is IPv6, but the first is IPv4"),
        (
            {"ips": ["fd00::1"], "ipVersion": 4},
            "denied: spec.ipVersion: 4 is not allowed: the addresses in spec.ips are",
        ),
        ({"ipVersion": 5}, "denied: spec.ipVersion: 5 is not allowed; allowed: 4 or 6"),
        ({"ips": ["x"]}, "denied: spec.ips[0]: 'x' is no IP address"),
    ],
)
def test_a_reservation(spec: Object, answer: str) -> None:
    """One family, and every range readable; two reservations may overlap."""
    assert judged("reserved", named("keep", **spec), knowledge=NOBODY).startswith(answer)


def test_a_reservation_is_written_in_one_form() -> None:
    """As a pool is; mixed families are left for the refusal to quote."""
    assert written("reserved", named("r", ips=["10.6.0.2", "10.6.0.1"])) == named("r", ips=["10.6.0.1-10.6.0.2"])
    mixed = named("r", ips=["fd00::1", "10.6.0.1"])
    assert written("reserved", mixed) == mixed
