"""No object raises, none is changed twice, and what is changed keeps its addresses."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from poolwarden.webhook.answer import Allowed, Denied, Patched, response
from poolwarden.webhook.patch import apply
from poolwarden.webhook.pool.address_lists import set_of
from poolwarden.webhook.pool.pools import mutate_pool, validate_pool
from webhook.pool_objects import KINDS, NOBODY, SETTINGS, Object, guard, knowing, nad, named, request, spider, written

ADDRESSES = st.one_of(
    st.builds("10.6.{}.{}".format, st.integers(0, 1), st.integers(0, 256)),
    st.builds("fd00::{:x}".format, st.integers(0, 1 << 20)),
    st.builds("FD00:0:0::{:x}".format, st.integers(0, 40)),
    st.sampled_from(["::ffff:10.6.0.1", "10.6.0.1%eth0", "010.6.0.1", "٣.1.1.1", "", " ", "0.0.0.0", "::"]),
)
RANGES = st.one_of(
    ADDRESSES,
    st.builds("{}-{}".format, ADDRESSES, ADDRESSES),
    st.builds("{}/{}".format, ADDRESSES, st.integers(-1, 130)),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    RANGES,
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object in which each field may be absent."""
    return st.fixed_dictionaries({}, optional=fields)


def mangled(value: Any, draw: st.DrawFn) -> Any:
    """The value with any JSON in the place of some part of it."""
    if isinstance(value, dict | list) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
        copy = value.copy()
        copy[key] = mangled(value[key], draw)
        return copy
    return draw(JSON)


NUMBERS = st.integers(-1, 5000)
LISTS = st.lists(RANGES, max_size=6)
NAMES = st.sampled_from(["eth0", " eth1", "a/b", "", "x" * 16, "..", "net%d", "é"]) | st.text(max_size=4)
POOLS = objects(ipv4=st.lists(st.sampled_from(["blue", "six", "x*", "gone", ""])), ipv6=st.lists(NAMES, max_size=2))
BLOCK = objects(
    master=st.lists(NAMES, max_size=3) | NAMES, vlanID=NUMBERS, bond=objects(name=NAMES, mode=NUMBERS), ippools=POOLS
)
RANGE = {"range": RANGES, "range_start": RANGES, "range_end": RANGES, "exclude": LISTS}
IPAM = objects(
    type=st.sampled_from(["whereabouts", "spiderpool", "host-local", ""]),
    ipRanges=st.lists(objects(**RANGE), max_size=3),
    network_name=NAMES,
    manager=objects(
        cooldown_period=st.sampled_from(["10s", "1h", "-5m", "x", ""]), low_ip_count=NUMBERS, high_ip_count=NUMBERS
    ),
    routes=st.lists(objects(dst=RANGES, gw=RANGES), max_size=2),
    addresses=st.lists(objects(address=RANGES), max_size=2),
    gateway=RANGES,
    default_ipv4_ippool=st.lists(NAMES, max_size=2),
    **RANGE,
)
TYPES: st.SearchStrategy[Any] = st.sampled_from(["macvlan", "bridge", ["macvlan"], {}, None])
PLUGIN = objects(type=TYPES, master=NAMES, ipam=IPAM) | objects(Type=TYPES, MASTER=NAMES, IPAM=IPAM)
CONFIG = st.one_of(PLUGIN, objects(plugins=st.lists(PLUGIN, max_size=3))).map(json.dumps) | st.text(max_size=20)
SPECS: dict[str, st.SearchStrategy[Any]] = {
    "pool": objects(
        subnet=st.sampled_from(["10.6.0.0/24", "10.6.0.5/24", "fd00::/64"]) | RANGES,
        ipVersion=st.sampled_from([4, 6]),
        ips=LISTS,
        excludeIPs=LISTS,
        gateway=ADDRESSES,
        routes=st.lists(objects(dst=RANGES, gw=RANGES), max_size=3),
        multusName=st.lists(NAMES, max_size=2),
    ),
    "reserved": objects(ips=LISTS, ipVersion=st.sampled_from([4, 6])),
    "config": objects(
        cniType=st.sampled_from(["macvlan", "ipvlan", "vlan", "ipoib", "sriov", "ib-sriov", "ovs", "custom"]),
        macvlan=BLOCK,
        ipvlan=BLOCK,
        vlan=BLOCK,
        ipoib=BLOCK,
        sriov=BLOCK,
        ovs=objects(bridge=NAMES, vlan=NUMBERS),
        coordinator=objects(podDefaultRouteNIC=NAMES),
        customCNI=CONFIG,
        disableIPAM=st.booleans(),
        chainCNIJsonData=st.lists(CONFIG, max_size=2),
    ),
    "nad": objects(config=CONFIG),
    "whereabouts": objects(range=RANGES, allocations=st.dictionaries(st.text(max_size=3), JSON, max_size=2)),
    "neon": objects(range=RANGES, managed=st.dictionaries(st.text(max_size=3), JSON, max_size=2)),
    "guard": objects(
        poolRef=objects(
            ipam=st.sampled_from(["spiderpool", "whereabouts", "neon", "terway"]), name=NAMES, namespace=NAMES
        ),
        keep=LISTS,
        reserve=LISTS,
        freeAddresses=objects(low=NUMBERS, target=NUMBERS, high=NUMBERS),
        graceSeconds=NUMBERS,
        cooldownSeconds=NUMBERS,
        retention=objects(statefulSets=objects(policy=NAMES, afterSeconds=NUMBERS)),
    ),
}
CLUSTER = knowing(
    pools=[
        spider(ips=["10.6.0.0-10.6.0.255"]),
        spider("six", "fd00::/64", ips=["fd00::-fd00::ffff"]),
        spider("odd", "x", ips=["x"]),
    ],
    whereabouts=[named("10.6.0.0-24", "kube-system", range="10.6.0.0/24"), named("odd", "kube-system", range="x")],
    neon=[named("n", "vm", range="10.6.0.0/23")],
    nads=[nad({"type": "whereabouts", "range": "10.6.0.0/24"}), named("odd", "team-a", config="{")],
    guards=[guard("red", reserve=["10.6.1.0-10.6.1.255"])],
)


@st.composite
def reviewed(draw: st.DrawFn) -> tuple[str, Object, Object | None]:
    """A kind, an object of it, and perhaps an old one."""
    kind = draw(st.sampled_from(sorted(SPECS)))
    records = st.dictionaries(ADDRESSES, st.just({"pod": "a/b"}) | JSON, max_size=2).map(json.dumps)
    shape = st.fixed_dictionaries(
        {"metadata": objects(name=st.text(max_size=5)), "spec": SPECS[kind]},
        optional={"status": objects(allocatedIPs=st.text(max_size=6) | records)},
    )
    obj = draw(shape)
    if draw(st.sampled_from([False, False, False, True])):
        obj = {**obj, "spec": mangled(obj["spec"], draw)}
    return kind, obj, draw(st.none() | shape)


@given(reviewed())
@example(("pool", {"spec": {"subnet": "10.6.0.0/24", "ips": ["10.6.0.0-10.6.0.255"]}}, None))
def test_nothing_raises(review: tuple[str, Object, Object | None]) -> None:
    """Every object is answered; an object that does not change passes, whatever it holds."""
    kind, obj, old = review
    asked = request(KINDS[kind], obj, old)
    changed = mutate_pool(asked, CLUSTER, SETTINGS)
    assert isinstance(changed, Allowed | Patched)
    assert response("u", changed)
    for knowledge in (CLUSTER, NOBODY):
        verdict = validate_pool(asked, knowledge, SETTINGS)
        assert isinstance(verdict, Allowed | Denied)
        assert response("u", verdict)
        assert isinstance(validate_pool(request(KINDS[kind], obj, obj), knowledge, SETTINGS), Allowed)


ESCAPES = st.sampled_from(["\\ud800", "\\udfff", "\\ud800\\ud801", "\\u0000", "\\ud83d\\ude00"])


@given(reviewed(), ESCAPES, st.sampled_from([b"eth0", b"10.6.0.", b"a", b"e", b"x"]), st.booleans())
def test_no_escape_raises(
    review: tuple[str, Object, Object | None],
    escape: str,
    place: bytes,
    inside: bool,  # noqa: FBT001
) -> None:
    """Half a surrogate pair, or NUL, in a key or value of the object, or of the JSON text that it holds."""
    kind, obj, old = review
    text = escape.replace("\\", "\\\\") if inside else escape
    raw = Raw(msgspec.json.encode(obj).replace(place, text.encode()))
    asked = request(KINDS[kind], obj, old, object=raw)
    for rule in (mutate_pool, validate_pool):
        verdict = rule(asked, CLUSTER, SETTINGS)
        assert isinstance(verdict, Allowed | Denied | Patched)
        assert msgspec.json.decode(response("u", verdict))


@given(st.sampled_from(sorted(KINDS)), st.binary(max_size=30) | st.text(max_size=30).map(str.encode), JSON)
def test_no_text_raises(kind: str, text: bytes, old: Any) -> None:
    """Not even what is no JSON."""
    asked = request(KINDS[kind], {}, object=Raw(text), old_object=Raw(msgspec.json.encode(old)))
    mutate_pool(asked, CLUSTER, SETTINGS)
    validate_pool(asked, CLUSTER, SETTINGS)


@given(reviewed())
def test_writing_is_idempotent_and_keeps_the_addresses(review: tuple[str, Object, Object | None]) -> None:
    """A second time changes nothing; each list holds what it held."""
    kind, obj, old = review
    once = written(kind, obj, old)
    assert written(kind, once, old) == once
    if once == obj:
        return
    assert kind in {"pool", "reserved", "config", "guard"}
    for key in ("ips", "excludeIPs", "keep", "reserve"):
        if key in once["spec"] and once["spec"][key] != obj["spec"][key]:
            assert set_of(tuple(once["spec"][key])) == set_of(tuple(obj["spec"][key]))


@given(reviewed())
def test_writing_changes_no_verdict(review: tuple[str, Object, Object | None]) -> None:
    """What is refused was refused as the user wrote it; blanks round names apart."""
    kind, obj, old = review
    answers = [
        isinstance(validate_pool(request(KINDS[kind], one, old), CLUSTER, SETTINGS), Denied)
        for one in (obj, written(kind, obj, old))
    ]
    assert answers[0] == answers[1] or (kind == "config" and answers[0])


def test_apply_is_what_the_api_server_does() -> None:
    """The patch stands on paths that exist."""
    obj = spider(ips=["10.6.0.2", "10.6.0.1"])
    answer = mutate_pool(request(KINDS["pool"], obj), NOBODY, SETTINGS)
    assert isinstance(answer, Patched)
    assert apply(obj, answer.operations)["spec"]["ips"] == ["10.6.0.1-10.6.0.2"]
