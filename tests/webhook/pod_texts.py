"""Annotation values near what users write, and near what breaks parsers."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(
    ["a", "b", "my.net", "v1", "v2", "base", "made", "bare", "own", "odd", "nowhere", "", "A", "a/b", "-"]
)
NAMESPACES = st.sampled_from(["", "team-a", "team-b", "kube-system", "Team", " "])
INTERFACES = st.sampled_from(
    [
        "",
        " ",
        "net1",
        "net2",
        "net3",
        "eth0",
        "foo",
        " foo",
        "foo ",
        "x" * 15,
        "x" * 16,
        "é",
        "à",
        "net%d",
        ".",
        "all",
        "a b",
        "a:b",
        "lo",
        "\ud800",
        " \udfff",
    ]
) | st.text(max_size=5)
HALF = re.compile("[\ud800-\udfff]")
BLANKS = st.sampled_from(["", " ", "\n", "\t", "\u00a0"])
POOLS = st.lists(
    st.sampled_from(["p0", "p1", "p2", "six", "p*", "q?", "[", "", " p0", "\ud800"]) | st.text(max_size=3), max_size=3
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        "name",
        "namespace",
        "interface",
        "interfaceRequest",
        "Interface",
        "ips",
        "mac",
        "default-route",
        "cni-args",
        "ipv4",
        "ipv6",
    ]
)
LAYOUTS: Any = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])


@st.composite
def text_items(draw: st.DrawFn) -> str:
    """An item of the comma form, with blanks anywhere."""
    parts = [draw(BLANKS)]
    if namespace := draw(NAMESPACES):
        parts += [namespace, draw(BLANKS), "/"]
    parts += [draw(BLANKS), draw(NAMES), draw(BLANKS)]
    if draw(st.booleans()):
        parts += ["@", draw(BLANKS), draw(INTERFACES)]
    return HALF.sub("?", "".join([*parts, draw(BLANKS)]))  # only JSON can say half a character


def sensible_items() -> st.SearchStrategy[dict[str, Any]]:
    """An item of the JSON form with few faults."""
    return st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "namespace": NAMESPACES,
            "interface": INTERFACES | st.none(),
            "interfaceRequest": INTERFACES,
            "ips": st.lists(st.sampled_from(["10.0.0.5", "10.0.0.5/24", "fd00::5", "x", ""]), max_size=2) | st.none(),
            "mac": st.sampled_from(["02:00:00:00:00:01", "02-00-00-00-00-01", "0200.0000.0001", "02:00", "", "zz"]),
        },
    )


def dumped(items: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    """As JSON text, in several layouts."""
    return st.builds(_dumped, items, LAYOUTS)


def _dumped(value: Any, layout: dict[str, Any]) -> str:
    text = json.dumps(value, **layout)
    return (
        text if text.isascii() or not HALF.search(text) else json.dumps(value)
    )  # half a character can only be escaped


NETWORK_TEXTS = st.one_of(
    st.lists(text_items(), min_size=1, max_size=5).map(",".join),
    dumped(st.lists(sensible_items(), max_size=5)),
    dumped(st.lists(st.dictionaries(KEYS, ANYTHING, max_size=4) | ANYTHING, max_size=3)),
    dumped(ANYTHING),
    st.text(max_size=20),
)
POOL_ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "interface": INTERFACES | st.none(),
        "ipv4": POOLS | st.none(),
        "ipv6": POOLS,
        "cleangateway": st.booleans(),
    },
)
POOL_TEXTS = st.one_of(
    dumped(st.lists(POOL_ITEMS, max_size=4)),
    dumped(POOL_ITEMS),
    dumped(st.lists(st.dictionaries(KEYS, ANYTHING, max_size=4), max_size=3)),
    dumped(ANYTHING),
    st.text(max_size=20),
)
