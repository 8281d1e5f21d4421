from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolwarden.cluster.patches import Malformed, Mismatch, Patched, json_patch, merge_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=3), JSON, max_size=4)

# RFC 7396, appendix A.
MERGES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]

# RFC 6902, appendix A: document, operations, result.
PATCHES: list[tuple[Any, list[dict[str, Any]], Any]] = [
    ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
    ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
    ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
    ({"baz": "qux", "foo": "bar"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo", "foo": "bar"}),
    (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    (
        {"foo": "bar"},
        [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}], {"foo": "bar", "baz": "qux"}),
    ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}], {"foo": ["bar", ["abc", "def"]]}),
    ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
    ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    ({"a/b": 1}, [{"op": "remove", "path": "/a~1b"}], {}),
    ({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 3}], {"a": [3, 2]}),
    ({"a": [1, {"b": True}]}, [{"op": "test", "path": "/a", "value": [1.0, {"b": True}]}], {"a": [1, {"b": True}]}),
]


@pytest.mark.parametrize(("value", "patch", "result"), MERGES)
def test_merge_patch_of_the_rfc(value: object, patch: object, result: object) -> None:
    """The examples of RFC 7396 come out as it says."""
    assert merge_patch(value, patch) == result


@given(JSON, OBJECTS)
def test_merge_patch_holds(value: object, patch: dict[str, object]) -> None:
    """After a merge no member that the patch sets to null is there, and every scalar that it sets is."""
    merged = merge_patch(value, patch)
    for key, change in patch.items():
        if change is None:
            assert key not in merged
        elif not isinstance(change, dict):
            assert merged[key] == change
    assert merge_patch(merged, patch) == merged


@pytest.mark.parametrize(("value", "operations", "result"), PATCHES)
def test_json_patch_of_the_rfc(value: object, operations: list[dict[str, Any]], result: object) -> None:
    """The examples of RFC 6902 come out as it says."""
    assert json_patch(value, operations) == Patched(result)


@pytest.mark.parametrize(
    ("value", "operation"),
    [
        ({"baz": "qux"}, {"op": "test", "path": "/baz", "value": "bar"}),
        ({"foo": "bar"}, {"op": "add", "path": "/baz/bat", "value": "qux"}),
        ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": "10"}),
        ({"a": 1}, {"op": "remove", "path": "/b"}),
        ({"a": 1}, {"op": "replace", "path": "/a/b", "value": 1}),
        ({"a": 1}, {"op": "replace", "path": "/b/c", "value": 1}),
        ({"a": 1}, {"op": "move", "from": "/b", "path": "/c"}),
        ({"a": 1}, {"op": "copy", "from": "/b", "path": "/c"}),
        ({"a": [1]}, {"op": "add", "path": "/a/2", "value": 1}),
        ({"a": [1]}, {"op": "remove", "path": "/a/1"}),
        ({"a": [1]}, {"op": "remove", "path": "/a/-"}),
        ({"a": [1]}, {"op": "replace", "path": "/a/00", "value": 1}),
        ({"a": [1]}, {"op": "replace", "path": "/a/x", "value": 1}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": True}),
        ({"a": {"b": 1}}, {"op": "test", "path": "/a", "value": {"b": 1, "c": 2}}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": None}),
        ({"a": 1}, {"op": "test", "path": "/b", "value": 1}),
        ({"a": {"b": 1}}, {"op": "test", "path": "/a", "value": [1]}),
        ({"a": [1]}, {"op": "test", "path": "/a", "value": {"0": 1}}),
        ({"a": [1]}, {"op": "test", "path": "/a", "value": [1, 2]}),
        ({"a": [[1]]}, {"op": "test", "path": "/a", "value": [[2]]}),
        ({"a": [1]}, {"op": "test", "path": "/a", "value": 1}),
        ({"a": 1}, {"op": "add", "path": "/a/b", "value": 1}),
    ],
)
def test_json_patch_does_not_fit(value: object, operation: dict[str, Any]) -> None:
    """A failed test and a path that is not there are a mismatch: the value is not what the patch was made for."""
    assert isinstance(json_patch(value, [operation]), Mismatch)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "frob", "path": "/a"},
        {"path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "value": 1},
        {"op": "add", "path": "/a"},
        {"op": "move", "path": "/a"},
        {"op": "move", "from": "/a", "path": "/a/b"},
        {"op": "remove", "path": ""},
    ],
)
def test_json_patch_malformed(operation: dict[str, Any]) -> None:
    """What is no operation is said to be none, whatever the value."""
    assert isinstance(json_patch({"a": {"b": 1}}, [operation]), Malformed)


def test_json_patch_is_all_or_nothing() -> None:
    """A later operation that fails leaves the value as it was."""
    value = {"a": [1]}
    operations = [{"op": "add", "path": "/a/-", "value": 2}, {"op": "test", "path": "/a/0", "value": 9}]
    assert isinstance(json_patch(value, operations), Mismatch)
    assert value == {"a": [1]}


def test_json_patch_as_the_api_server_has_it() -> None:
    """Where the member is absent the API server lets a test for null pass, and replaces it all the same; so do we."""
    assert json_patch({"a": 1}, [{"op": "test", "path": "/b", "value": None}]) == Patched({"a": 1})
    assert json_patch({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}]) == Patched({"a": 1, "b": 2})


@given(OBJECTS, JSON)
def test_json_patch_add_then_remove(value: dict[str, object], member: object) -> None:
    """Removing what was added gives back the value, which neither changed."""
    before = dict(value)
    before.pop("new~/", None)
    added = json_patch(before, [{"op": "add", "path": "/new~0~1", "value": member}])
    assert isinstance(added, Patched)
    assert added.value["new~/"] == member
    assert json_patch(added.value, [{"op": "remove", "path": "/new~0~1"}]) == Patched(before)
