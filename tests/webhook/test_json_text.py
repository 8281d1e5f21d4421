"""JSON text edited in place."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from poolwarden.webhook.json_text import Malformed, edited, last, parse_list, parse_object, setting, string

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text() | st.sampled_from(["name", "interface", "Interface"]), VALUES, max_size=4)
LAYOUTS: Any = st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}, {"separators": (" , ", " : ")}])


@given(st.lists(OBJECTS, max_size=4), LAYOUTS, st.text(), st.data())
def test_a_string_set_in_one_object_changes_nothing_else(
    items: list[dict[str, Any]], layout: dict[str, Any], value: str, data: st.DataObject
) -> None:
    """The text stays JSON, and every other value what it was."""
    text = json.dumps(items, **layout)
    located = parse_list(text)
    assert not isinstance(located, Malformed)
    assert len(located) == len(items)
    if not items:
        return
    at = data.draw(st.integers(0, len(items) - 1))
    after = edited(text, [setting(text, located[at], "interface", value)])
    items[at]["interface"] = value
    assert json.loads(after) == items
    again = parse_list(after)
    assert not isinstance(again, Malformed)
    assert string(again[at], "interface") == value


@given(st.text())
def test_no_text_raises(text: str) -> None:
    """It is read, or it is malformed."""
    assert isinstance(parse_list(text), tuple | Malformed)
    parse_object(text)


@given(st.lists(VALUES), LAYOUTS)
def test_items_stand_where_they_are_said_to_stand(items: list[Any], layout: dict[str, Any]) -> None:
    """Start and end delimit an item's own text, and a member's value."""
    text = json.dumps(items, **layout)
    located = parse_list(text)
    assert not isinstance(located, Malformed)
    for item, value in zip(located, items, strict=True):
        assert json.loads(text[item.start : item.end]) == value
        for member in item.members:
            assert json.loads(text[member.start : member.end]) == value[member.key]


def test_keys_match_as_gos_do() -> None:
    """Without regard to case; the last one wins, and null leaves what stood before."""
    item = parse_object('{"interface":"a","INTERFACE":"b","Interface":null,"interfaces":"c"}')
    assert not isinstance(item, Malformed)
    assert string(item, "interface") == "b"
    member = last(item, "interface")
    assert member is not None
    assert member.key == "Interface"


def test_hostile_text_is_malformed() -> None:
    """Neither depth nor the length of a number raises."""
    assert isinstance(parse_list("[" * 100_000), Malformed)
    assert not isinstance(parse_list(f"[{'9' * 10_000}]"), Malformed)
    assert isinstance(parse_list("[NaN]"), Malformed)
