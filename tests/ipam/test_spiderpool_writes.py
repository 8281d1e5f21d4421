"""Conditional writes on Spiderpool's objects: exactly what was judged, and nothing else, changes."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from factories import Object, blue, claim, endpoint
from poolwarden.ipam.inventory import Change, Stale
from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.pool import PoolRef, Record
from poolwarden.ipam.spiderpool import POOLS, SpiderEndpoints, Spiderpool

BACKEND = Spiderpool()
ENDPOINTS = SpiderEndpoints()
REF = PoolRef("spiderpool", "", "blue")
A, B, C = "10.0.0.10", "10.0.0.11", "10.0.0.12"
POOL_GUARD = {"resourceVersion": "7", "uid": "blue-uid"}
ENDPOINT_GUARD = {"resourceVersion": "7", "uid": "app-endpoint-uid"}


def raw(thing: Object) -> bytes:
    """The JSON text of an object."""
    return msgspec.json.encode(thing)


def judged(thing: Object, *addresses: str) -> list[Record]:
    """The records of a pool that were judged."""
    decoded = msgspec.json.decode(raw(thing), type=BACKEND.item_type(POOLS))
    (found,) = BACKEND.inventory({POOLS: [decoded]}).pools
    return [record for record in found.readable_records if record.address in addresses]


def with_text(text: str) -> Object:
    """A pool whose allocatedIPs is that text."""
    made = blue()
    made["status"] |= {"allocatedIPs": text, "allocatedIPCount": 3}
    return made


def change(made: Change | Stale) -> Change:
    """The write, which must be one."""
    assert isinstance(made, Change), made
    return made


def body(made: Change | Stale) -> Mapping[str, Any]:
    """The merge patch that a write is."""
    wanted = change(made).body
    assert isinstance(wanted, Mapping)
    return wanted


def without(thing: Object, *addresses: str, now: Object | None = None) -> Change | Stale:
    """The write that removes records as judged in `thing` from the pool as it is `now`."""
    return BACKEND.without_records(raw(now or thing), judged(thing, *addresses))


# --- removing records ---------------------------------------------------------------------------------------------------


def test_remove_one_record() -> None:
    """The other entries stay to the byte, the count is theirs, and resourceVersion and UID must still hold."""
    other = '{"pod":"default/b" , "podUid":"\\u0062","new":[1.50,null]}'
    thing = with_text(f'{{ "{A}":{{"pod":"default/a","podUid":"a"}}, "{B}":{other}, "odd key":5}}')
    made = change(without(thing, A))
    assert made.body == {
        "status": {"allocatedIPs": f'{{"{B}":{other},"odd key":5}}', "allocatedIPCount": 2},
        "metadata": POOL_GUARD,
    }
    assert (made.kind, made.namespace, made.name, made.subresource) == (POOLS, "", "blue", "status")


def test_remove_several_records_at_once() -> None:
    """One write per pool."""
    thing = blue({A: claim("a"), B: claim("b"), C: claim("c")})
    text = json.dumps({B: claim("b")}, separators=(",", ":"))
    assert body(without(thing, A, C))["status"] == {"allocatedIPs": text, "allocatedIPCount": 1}


def test_remove_the_last_record() -> None:
    """Null instead of an empty object: Spiderpool tests for nil before it lets a pool go."""
    assert change(without(blue({A: claim("a")}), A)).body == {
        "status": {"allocatedIPs": None, "allocatedIPCount": 0},
        "metadata": POOL_GUARD,
    }


def test_remove_a_record_by_its_own_key() -> None:
    """A key in another spelling is removed as it is written."""
    thing = with_text('{"::ffff:10.0.0.10":{"pod":"default/a","podUid":"a"},"x":1}')
    assert body(without(thing, A))["status"]["allocatedIPs"] == '{"x":1}'


def test_remove_from_an_object() -> None:
    """Up to v0.3 allocatedIPs is an object: a merge patch removes keys by null, others stay as they are."""
    entries = {A: {"namespace": "default", "pod": "a"}, B: {"namespace": "default", "pod": "b", "node": "n"}}
    thing = blue()
    thing["status"] |= {"allocatedIPs": entries, "allocatedIPCount": 2}
    expected = {"allocatedIPs": {A: None, B: entries[B]}, "allocatedIPCount": 1}
    assert body(without(thing, A))["status"] == expected
    assert body(without(thing, A, B))["status"] == {"allocatedIPs": None, "allocatedIPCount": 0}


@pytest.mark.parametrize(
    "now",
    [
        blue({B: claim("b")}),
        blue({A: claim("a", "other-uid"), B: claim("b")}),
        blue({A: claim("other", "a-uid"), B: claim("b")}),
        blue({A: claim("a") | {"new": 1}, B: claim("b")}),
        blue("{", allocated=1),
        blue(),
    ],
)
def test_record_that_is_not_as_it_was_judged(now: Object) -> None:
    """Gone, another UID, another owner, any other change, or unreadable: nothing is written."""
    thing = blue({A: claim("a"), B: claim("b")})
    assert isinstance(without(thing, A, now=now), Stale)
    assert isinstance(without(thing, B, A, now=now), Stale)


def test_stale_says_which_record() -> None:
    """For people."""
    made = without(blue({A: claim("a")}), A, now=blue())
    assert isinstance(made, Stale)
    assert A in made.message


def test_another_record_may_have_changed() -> None:
    """Only what was judged must be the same; what else is there now is kept."""
    thing = blue({A: claim("a"), B: claim("b")})
    text = json.dumps({B: claim("b", "new-uid"), C: claim("c")}, separators=(",", ":"))
    now = blue({A: claim("a"), B: claim("b", "new-uid"), C: claim("c")})
    assert body(without(thing, A, now=now))["status"] == {"allocatedIPs": text, "allocatedIPCount": 2}


# --- putting a record back ----------------------------------------------------------------------------------------------

RECORD = b'{"pod":"default/a", "podUid":"a"}'


def test_put_a_record_back() -> None:
    """To the byte, beside what is there now."""
    thing = with_text(f'{{"{B}":{{"pod":"default/b" }}}}')
    made = change(BACKEND.with_record(raw(thing), REF, A, RECORD))
    assert made.body == {
        "status": {
            "allocatedIPs": f'{{"{B}":{{"pod":"default/b" }},"{A}":{{"pod":"default/a", "podUid":"a"}}}}',
            "allocatedIPCount": 2,
        },
        "metadata": POOL_GUARD,
    }
    assert (made.kind, made.name, made.subresource) == (POOLS, "blue", "status")


@pytest.mark.parametrize("empty", [None, "", "{}"])
def test_put_a_record_back_into_an_empty_pool(empty: str | None) -> None:
    """Whatever an empty pool has there."""
    thing = blue()
    thing["status"]["allocatedIPs"] = empty
    made = change(BACKEND.with_record(raw(thing), REF, A, RECORD))
    assert body(made)["status"] == {"allocatedIPs": f'{{"{A}":{RECORD.decode()}}}', "allocatedIPCount": 1}


@pytest.mark.parametrize("key", [A, "::ffff:10.0.0.10"])
def test_address_that_has_a_record_again(key: str) -> None:
    """Refused, in whatever spelling it stands."""
    made = BACKEND.with_record(raw(with_text(f'{{"{key}":{{}}}}')), REF, A, RECORD)
    assert isinstance(made, Stale)
    assert A in made.message


def test_put_back_where_records_cannot_be_read() -> None:
    """Refused."""
    assert isinstance(BACKEND.with_record(raw(with_text("{")), REF, A, RECORD), Stale)


def test_put_back_into_an_object() -> None:
    """The old form stays the old form."""
    thing = blue()
    thing["status"]["allocatedIPs"] = {B: {"pod": "b", "namespace": "default"}}
    made = change(BACKEND.with_record(raw(thing), REF, A, b'{"pod":"a","namespace":"default"}'))
    assert body(made)["status"] == {
        "allocatedIPs": {B: {"pod": "b", "namespace": "default"}, A: {"pod": "a", "namespace": "default"}},
        "allocatedIPCount": 2,
    }


# --- endpoints ----------------------------------------------------------------------------------------------------------

ITEMS: list[Object] = [
    {"interface": "eth0", "ipv4": f"{A}/24", "ipv4Pool": "blue", "ipv4Gateway": "10.0.0.1", "vlan": 0, "mac": "02:00"},
    {
        "interface": "",
        "ipv4": f"{B}/24",
        "ipv4Pool": "blue",
        "ipv4Gateway": "10.0.0.1",
        "ipv6": "FD00::B/64",
        "ipv6Pool": "six",
        "ipv6Gateway": "fd00::1",
        "routes": [{"dst": "10.0.0.0/16", "gw": "10.0.0.1"}],
    },
]


def listing(*items: Object, **more: Any) -> Object:
    """An endpoint with these items."""
    made = endpoint("app", {}, **more)
    made["status"]["current"] |= {"ips": list(items), "unknown": {"kept": True}}
    return made


def items_of(made: Change | Stale) -> Any:
    """The items that a write leaves; nothing but they is in it."""
    written = change(made)
    assert (written.kind, written.namespace, written.name, written.subresource) == (
        ENDPOINTS.kind,
        "default",
        "app",
        "",
    )
    assert set(written.body) == {"status", "metadata"}
    assert body(written)["metadata"] == ENDPOINT_GUARD
    assert set(body(written)["status"]) == {"current"}
    assert set(body(written)["status"]["current"]) == {"ips"}
    return body(written)["status"]["current"]["ips"]


def test_take_an_address_out() -> None:
    """A NIC that has no address left leaves whole; the other stays with all its fields."""
    assert items_of(ENDPOINTS.without_items(raw(listing(*ITEMS)), "app-uid", {A})) == [ITEMS[1]]


def test_take_one_family_out() -> None:
    """With its pool and gateway; whatever else the NIC has stays."""
    left = items_of(ENDPOINTS.without_items(raw(listing(*ITEMS)), "app-uid", {B}))
    kept = {key: value for key, value in ITEMS[1].items() if not key.startswith("ipv4")}
    assert left == [ITEMS[0], kept]
    left = items_of(ENDPOINTS.without_items(raw(listing(*ITEMS)), "app-uid", {"fd00::b"}))
    assert left == [ITEMS[0], {key: value for key, value in ITEMS[1].items() if not key.startswith("ipv6")}]


def test_take_both_families_out() -> None:
    """Then the NIC is gone."""
    assert items_of(ENDPOINTS.without_items(raw(listing(*ITEMS)), "app-uid", {B, "fd00::b"})) == [ITEMS[0]]
    assert items_of(ENDPOINTS.without_items(raw(listing(*ITEMS)), "app-uid", {A, B, "fd00::b"})) == []


def test_take_the_only_address_out_beside_null() -> None:
    """Null is absent."""
    item = ITEMS[0] | {"ipv6": None, "ipv6Pool": None}
    assert items_of(ENDPOINTS.without_items(raw(listing(item, ITEMS[1])), "app-uid", {A})) == [ITEMS[1]]


def test_an_item_without_addresses_stays() -> None:
    """Only what was judged changes."""
    bare = {"interface": "net2", "vlan": 5}
    assert items_of(ENDPOINTS.without_items(raw(listing(ITEMS[0], bare)), "app-uid", {A})) == [bare]


def test_addresses_that_cannot_be_read_stay() -> None:
    """An item that makes no sense is nobody's to remove."""
    odd = {"interface": "net2", "ipv4": "10.0.0.300/24"}
    assert items_of(ENDPOINTS.without_items(raw(listing(ITEMS[0], odd)), "app-uid", {A})) == [odd]


def test_name_an_unnamed_nic() -> None:
    """By either of its addresses; named ones keep their name."""
    named = ITEMS[1] | {"interface": "net1"}
    assert items_of(ENDPOINTS.with_interfaces(raw(listing(*ITEMS)), "app-uid", {B: "net1"})) == [ITEMS[0], named]
    assert items_of(ENDPOINTS.with_interfaces(raw(listing(*ITEMS)), "app-uid", {"fd00::b": "net1"}))[1] == named
    assert items_of(ENDPOINTS.with_interfaces(raw(listing(*ITEMS)), "app-uid", {A: "net9", B: "net1"}))[0] == ITEMS[0]


def test_drop_a_repeated_nic() -> None:
    """Of the items of that NIC the first with just these addresses stays; other NICs' items do, too, as they are."""
    wrong = {"interface": "eth0", "ipv4": f"{C}/24", "ipv4Pool": "blue"}
    more = ITEMS[0] | {"ipv6": "fd00::a/64"}
    twice = raw(listing(wrong, ITEMS[0], more, ITEMS[0], ITEMS[1]))
    assert items_of(ENDPOINTS.without_duplicates(twice, "app-uid", "eth0", {A})) == ITEMS
    assert items_of(ENDPOINTS.without_duplicates(twice, "app-uid", "eth0", {A, "fd00::a"})) == [more, ITEMS[1]]


@pytest.mark.parametrize(
    "made",
    [
        ENDPOINTS.without_duplicates(raw(listing({"ipv4": f"{B}/24"}, ITEMS[0])), "app-uid", "eth0", {A}),
        ENDPOINTS.without_items(raw(listing(*ITEMS)), "app-uid", {C}),
        ENDPOINTS.with_interfaces(raw(listing(*ITEMS)), "app-uid", {C: "net1", A: "net9"}),
        ENDPOINTS.without_duplicates(raw(listing(*ITEMS)), "app-uid", "eth0", {A}),
        ENDPOINTS.without_duplicates(raw(listing(*ITEMS)), "app-uid", "net5", {A}),
    ],
)
def test_a_write_that_would_change_nothing(made: Change | Stale) -> None:
    """None is made."""
    assert isinstance(made, Stale)


@pytest.mark.parametrize(
    "thing",
    [
        listing(*ITEMS, uid="other-uid"),
        endpoint("app", {}, uid=""),
        endpoint("app", {}) | {"status": {"current": None}},
        endpoint("app", {}) | {"status": {}},
    ],
)
def test_endpoint_that_is_no_longer_that_owners(thing: Object) -> None:
    """Nothing is edited in an endpoint of another UID."""
    text = raw(thing)
    assert isinstance(ENDPOINTS.without_items(text, "app-uid", {A}), Stale)
    assert isinstance(ENDPOINTS.with_interfaces(text, "app-uid", {B: "net1"}), Stale)
    assert isinstance(ENDPOINTS.without_duplicates(text, "app-uid", "eth0", {A}), Stale)


@pytest.mark.parametrize("items", [None, []])
def test_endpoint_without_items(items: object) -> None:
    """There is nothing to take out."""
    thing = listing()
    thing["status"]["current"]["ips"] = items
    assert isinstance(ENDPOINTS.without_items(raw(thing), "app-uid", {A}), Stale)


# --- the finalizer ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finalizers", "left"),
    [
        (["spiderpool.spidernet.io"], None),
        (["spiderpool.spidernet.io", "other/one"], ["other/one"]),
        (["other/one", "spiderpool.spidernet.io", "other/two"], ["other/one", "other/two"]),
        ([], None),
    ],
)
def test_take_the_finalizer_off(finalizers: list[str], left: list[str] | None) -> None:
    """Spiderpool's only, under the resourceVersion that was read; others still hold the endpoint."""
    made = change(ENDPOINTS.without_finalizer(raw(endpoint("app", {}, finalizers=finalizers, deleting=True))))
    assert made.body == {"metadata": {"finalizers": left, **ENDPOINT_GUARD}}
    assert (made.kind, made.namespace, made.name, made.subresource) == (ENDPOINTS.kind, "default", "app", "")


def test_take_the_finalizer_off_where_there_is_none() -> None:
    """A terminating endpoint that another finalizer's owner has just let go."""
    thing = endpoint("app", {}, deleting=True)
    del thing["metadata"]["finalizers"]
    made = change(ENDPOINTS.without_finalizer(raw(thing)))
    assert made.body == {"metadata": {"finalizers": None, **ENDPOINT_GUARD}}


def test_finalizer_of_an_endpoint_that_stays() -> None:
    """It is what keeps the endpoint from vanishing with its pod: not taken off before the delete."""
    assert isinstance(ENDPOINTS.without_finalizer(raw(endpoint("app", {}))), Stale)


# --- the backend --------------------------------------------------------------------------------------------------------


def test_what_the_backend_reads() -> None:
    """Its kinds, by what `kubectl get` calls them."""
    kinds: list[Kind] = [BACKEND.pool_kind, ENDPOINTS.kind, *BACKEND.aside]
    assert [kind.kubectl_name for kind in kinds] == [
        "spiderippools.spiderpool.spidernet.io",
        "spiderendpoints.spiderpool.spidernet.io",
        "spiderreservedips.spiderpool.spidernet.io",
    ]
    assert {kind.api_version for kind in kinds} == {"spiderpool.spidernet.io/v2beta1"}
    assert [kind.namespaced for kind in kinds] == [False, True, False]
    assert BACKEND.keeps_addresses
    assert BACKEND.ipam_types == {"spiderpool"}
