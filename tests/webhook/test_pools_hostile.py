"""Objects that nobody would write in good faith: none takes long, none makes a long message, none tells a secret."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any

import msgspec
import pytest

from poolwarden.webhook.answer import Allowed, Denied, Patched, response
from poolwarden.webhook.knowledge import SOURCES, Knowledge
from poolwarden.webhook.pool.pools import mutate_pool, validate_pool
from webhook.pool_objects import (
    KINDS,
    SETTINGS,
    Object,
    guard,
    holding,
    judged,
    knowing,
    nad,
    named,
    request,
    spider,
)

SECONDS = 1.0
"""Each takes a tenth of it or less; what was mended took minutes."""
W: Object = {"type": "whereabouts"}
EVEN = [f"10.6.{b}.{c}" for b in range(160) for c in range(0, 250, 2)]
"""20,000 addresses that do not merge."""
POOLS = [
    spider(
        f"p{n}",
        "10.0.0.0/8",
        ips=[f"10.6.{n % 250}.{n // 250 * 50 + k}" for k in range(0, 50, 2)],
        multusName=[f"team-a/n{n}"],
    )
    for n in range(1000)
]
NADS = [
    nad({"type": "spiderpool", "default_ipv4_ippool": [f"p{n}", f"x{n % 20}*"]}, f"n{n}", master=f"eth{n}")
    for n in range(1000)
]
RANGES = [nad({**W, "range": f"10.{n % 250}.{n // 250}.0/24"}, f"r{n}") for n in range(1000)]
MADE = [named(f"10.{n % 250}.{n // 250}.0-24", "a", range=f"10.{n % 250}.{n // 250}.0/24") for n in range(1000)]
LARGE = knowing(pools=POOLS, nads=NADS, whereabouts=MADE)
RANGED = knowing(pools=POOLS, nads=RANGES, whereabouts=MADE)
ALL = "10.0.0.0-10.255.255.255"


def config(**spec: Any) -> Object:
    """A SpiderMultusConfig."""
    return named("smc", "team-a", cniType="macvlan", **spec)


SLOW: dict[str, tuple[str, Object, Knowledge]] = {
    "many addresses": ("pool", spider(subnet="10.0.0.0/8", ips=EVEN), LARGE),
    "many exclusions": ("pool", spider(subnet="10.0.0.0/8", ips=[ALL], excludeIPs=EVEN), LARGE),
    "many bad addresses": ("pool", spider(ips=["x"] * 200_000), LARGE),
    "everything": ("pool", spider(subnet="10.0.0.0/8", ips=[ALL], multusName=["team-a/n3"]), LARGE),
    "everything, of names without namespace": (
        "pool",
        spider(subnet="10.0.0.0/8", ips=[ALL], multusName=["n3"]),
        LARGE,
    ),
    "a known pool of many": (
        "pool",
        spider(subnet="10.0.0.0/8", ips=EVEN),
        knowing(pools=[spider("o", "10.0.0.0/8", ips=EVEN[1:])]),
    ),
    "many ranges": (
        "nad",
        nad({**W, "ipRanges": [{"range": f"10.{n % 250}.{n // 250}.0/24"} for n in range(2000)]}, "new"),
        RANGED,
    ),
    "many unknown keys in ranges": ("nad", nad({**W, "ipRanges": [{"zz": 1}] * 200_000}), LARGE),
    "many bad exclusions": ("nad", nad({**W, "range": "10.0.0.0/8", "exclude": ["x"] * 200_000}), LARGE),
    "many routes": ("nad", nad({**W, "range": "10.0.0.0/8", "routes": [{"dst": "x"}] * 100_000}), LARGE),
    "many plugins": ("nad", named("n", "a", config=json.dumps({"plugins": [{"type": "x"}] * 100_000})), LARGE),
    "many patterns": ("nad", nad({"type": "spiderpool", "default_ipv4_ippool": ["z*", "y?"] * 50_000}), LARGE),
    "many masters": ("config", config(macvlan={"master": [f"e{n}" for n in range(100_000)]}), LARGE),
    "one master many times": ("config", config(macvlan={"master": ["e"] * 100_000}), LARGE),
    "many reserved": ("guard", guard(reserve=EVEN), LARGE),
}


@pytest.mark.parametrize("name", SLOW)
def test_no_object_takes_long(name: str) -> None:
    """Among a thousand pools and networks."""
    kind, obj, cluster = SLOW[name]
    asked = request(KINDS[kind], obj)
    validate_pool(asked, cluster, SETTINGS)  # what is known is read once
    start = perf_counter()
    mutate_pool(asked, cluster, SETTINGS)
    validate_pool(asked, cluster, SETTINGS)
    assert perf_counter() - start < SECONDS


LONG = "9" * 100_000
LOUD: list[tuple[str, Object]] = [
    ("pool", spider(ips=[f"{n}{LONG}" for n in range(30)])),
    ("pool", spider(ips=[f"{LONG}-{LONG}"], gateway=LONG, routes=[{"dst": LONG, "gw": LONG}] * 9)),
    ("pool", spider(subnet=LONG)),
    ("pool", named("p", subnet={LONG: LONG})),
    ("reserved", named("r", ips=["\N{SNOWMAN}" * 70 + str(n) for n in range(30)])),
    ("config", config(macvlan={"master": [f"{LONG}{n}" for n in range(30)], "vlanID": 5})),
    ("nad", nad({**W, "range": LONG})),
    ("nad", nad({**W, "ipRanges": [{"range": f"{n}/{LONG}", LONG: 5} for n in range(30)]})),
    ("nad", named("n", "a", config=json.dumps({"plugins": [{"ipam": {**W, "range": str(n)}} for n in range(99)]}))),
    ("whereabouts", named("p", "a", range=LONG)),
    ("guard", guard(keep=[LONG] * 30, mode=LONG)),
]


@pytest.mark.parametrize(("kind", "obj"), LOUD, ids=range(len(LOUD)))
def test_a_denial_is_short(kind: str, obj: Object) -> None:
    """A few of its faults, each with the start of its value."""
    answer = validate_pool(request(KINDS[kind], obj), LARGE, SETTINGS)
    assert isinstance(answer, Denied)
    assert len(answer.message.encode()) < 4096
    assert all(len(warning) <= 256 for warning in answer.warnings)


def test_a_value_is_quoted_once() -> None:
    """An error about a part of a text does not quote it again."""
    assert judged("pool", spider(ips=["10.6.0.x"])).count("10.6.0.x") == 1
    assert judged("pool", spider(ips=["10.6.0.x-10.6.0.9"])).count("10.6.0.x") == 1


def test_many_faults_are_cut_between_faults() -> None:
    """And that there are more is said."""
    assert judged("pool", spider(ips=[f"x{n}" for n in range(30)])).endswith("; and more")
    assert judged("pool", spider(ips=[f"x{n}" for n in range(20)])).endswith("first-last")


SECRET = "hunter2"
SECRETS: list[tuple[str, Object]] = [
    ("nad", named("n", "a", config=f'{{"password": "{SECRET}"')),
    ("nad", nad({**W, "range": "10.6.0.0/24", "etcd_password": {"x": SECRET}})),
    ("nad", nad({**W, "range": "10.6.0.0/24", "etcd_key_file": [SECRET]})),
    ("nad", nad({**W, "range": {"etcd_password": SECRET}})),
    ("nad", nad({**W, "range": "10.6.0.0/24", "exclude": [{"etcd_password": SECRET}]})),
    ("nad", nad({**W, "range": "10.6.0.0/24", "kubernetes": SECRET, "dns": SECRET, "sleep_for_race": SECRET})),
    ("nad", nad({**W, "range": "10.6.0.0/24", "token": SECRET})),
    ("nad", nad(SECRET)),
    ("nad", nad({"type": "spiderpool", "log_file_path": [SECRET], "default_ipv4_ippool": SECRET})),
    ("nad", nad({"ipRanges": [{"range": "10.6.0.0/24"}], "manager": SECRET})),
    ("nad", named("n", "a", config={"password": SECRET})),
    ("config", named("smc", "a", customCNI=f"password: {SECRET}")),
    ("config", config(macvlan={"master": ["eth1"]}, chainCNIJsonData=[f"password: {SECRET}"])),
    ("config", named("smc", "a", customCNI={"password": SECRET})),
]


@pytest.mark.parametrize(("kind", "obj"), SECRETS, ids=range(len(SECRETS)))
def test_no_secret_is_told(kind: str, obj: Object) -> None:
    """The key is named; a value is quoted only where it is what is judged."""
    told = judged(kind, obj)
    assert told != "allowed"
    assert SECRET not in told


def test_a_number_may_be_a_secret() -> None:
    """As any value of a key that is not judged for it."""
    assert judged("nad", nad({**W, "range": "10.6.0.0/24", "etcd_password": 4711})) == (
        "denied: spec.config ipam.etcd_password: a number is not allowed; needed: a string"
    )


def test_names_of_pools_are_told_before_ranges() -> None:
    """A warning that is cut still names the other pool, however long addresses are."""
    odd = [f"fd00:1111:2222:3333:4444:5555:6666:{n:x}" for n in range(0x1000, 0x1010, 2)]
    pool = spider(subnet="fd00::/16", ips=odd)
    cluster = knowing("is old", pools=[spider("red", "fd00::/16", ips=odd)])
    assert "SpiderIPPool red holds fd00:1111:2222:3333:4444:5555:6666:1000, " in judged("pool", pool, knowledge=cluster)


@pytest.mark.parametrize("escape", ["\\ud800", "\\udc00", "\\ud800\\ud800", "\\ud800x"])
@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        ("pool", spider(ips=["@"], gateway="@")),
        ("pool", {"metadata": {"name": "@"}, "spec": {"ips": []}}),
        ("pool", spider(multusName=["@"])),
        ("reserved", named("r", ips=["@-@"])),
        ("config", config(macvlan={"master": ["@"], "bond": {"name": "@"}})),
        ("config", named("c", "a", cniType="@")),
        ("config", named("c", "a", customCNI='{"type": "@"}')),
        ("nad", nad({**W, "range": "@"})),
        ("nad", nad({**W, "@": "@", "range": "10.6.0.0/24"})),
        ("nad", nad({**W, "ipRanges": [{"@": 1, "range": "@"}]})),
        ("whereabouts", named("p", "a", range="@", allocations={"@": {}})),
        ("neon", named("p", "a", range="10.6.0.0/24", managed={"@": {}})),
        ("guard", guard(keep=["@"], mode="@")),
    ],
)
def test_half_a_surrogate_pair_is_answered(kind: str, obj: Object, escape: str) -> None:
    """In the object's own JSON, and in the JSON text that it holds; the answer can be written."""
    for text in (escape, escape.replace("\\", "\\\\")):
        raw = msgspec.Raw(msgspec.json.encode(obj).replace(b"@", text.encode()))
        for old in (raw, msgspec.Raw(b"null")):
            asked = request(KINDS[kind], obj, object=raw, old_object=old)
            for rule in (mutate_pool, validate_pool):
                answer = rule(asked, LARGE, SETTINGS)
                assert isinstance(answer, Allowed | Denied | Patched)
                assert msgspec.json.decode(response("u", answer))


@pytest.mark.parametrize("value", [["macvlan"], {}, {"a": []}, [[]], 5, True, None])
@pytest.mark.parametrize("key", ["type", "master", "ipam", "plugins", "name"])
def test_values_of_any_type(key: str, value: Any) -> None:
    """A list or object in the place of a name is no member of a set, but no failure either."""
    plugin: Object = {"type": "macvlan", "master": "eth1", "ipam": {**W, "range": "10.6.0.0/24"}}
    assert judged("nad", named("n", "a", config=json.dumps({**plugin, key: value})))
    inner: Object = {"type": "whereabouts", "range": "10.6.0.0/24", "ipRanges": []}
    for inside in ("type", "range", "ipRanges", "manager", "default_ipv4_ippool"):
        assert judged("nad", nad({**inner, inside: value}, master=value))


def test_records_of_other_pools_are_not_kept() -> None:
    """They can be megabytes, and no rule looks at them."""
    kind, shape = SOURCES["spider_pools"]
    assert kind == KINDS["pool"]
    pool = msgspec.convert(holding(spider(), {"10.6.0.5": "a/b"}), shape)
    assert "10.6.0.5" not in repr(pool)
