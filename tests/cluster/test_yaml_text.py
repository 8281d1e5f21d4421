import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from poolwarden.cluster.yaml_text import YamlError, dump, load

PRINTABLE = st.text(max_size=20) | st.from_regex(r"[-+.0-9eExX_:~yYnNofaltrus]{1,12}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | PRINTABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PRINTABLE, inner, max_size=4),
    max_leaves=15,
)

KUBECTL = """\
apiVersion: v1
kind: Pod
metadata:
  annotations:
    empty: ""
    network-status: |-
      [{
          "name": "kube-system/macvlan",
          "interface": "eth0"
      }]
    octal: "0644"
    word: "yes"
  creationTimestamp: "2026-01-10T12:00:00Z"
  labels:
    app: web
    number: "1"
  name: web-0
spec:
  containers:
  - args: []
    image: registry.example.com/web:1.2.3
    name: web
    resources: {}
  priority: 0
status:
  lastProbeTime: null
  podIP: 10.0.0.1
  started: true
"""


def value_of(text: str) -> Any:
    """The one document's value."""
    (document,) = load(text)
    return document.value


def test_kubectl_text_is_kept_to_the_byte() -> None:
    """What kubectl printed and nobody changed is written as it was."""
    assert dump(value_of(KUBECTL)) == KUBECTL


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-10T12:00:00Z", "2026-01-10T12:00:00Z"),
        ("2026-01-10", "2026-01-10"),
        ("1:30", "1:30"),
        ("10:20:30:40:50:59", "10:20:30:40:50:59"),
        ("yes", True),
        ("Off", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-1_000", -1000),
        ("0644", 420),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", 3),
        ("1.5", 1.5),
        ("1e3", 1000),
        ("1.", 1),
        ("089", 89),
        ("y", True),
        (".5", 0.5),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("9" * 5000, "9" * 5000),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("10.0.0.1", "10.0.0.1"),
        ("'yes'", "yes"),
        ('"1"', "1"),
        ("!!str 1", "1"),
        ("0x_", "0x_"),
        ("+", "+"),
    ],
)
def test_plain_scalars(text: str, value: object) -> None:
    """Scalars mean what they mean to kubectl: dates and base-60 numbers are text, what JSON cannot say is too."""
    found = value_of(f"a: {text}\n")["a"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_text() -> None:
    """JSON has no other keys."""
    assert value_of("1: a\ntrue: b\n") == {"1": "a", "true": "b"}


@given(JSON)
def test_round_trip(value: object) -> None:
    """Whatever JSON can say comes back as it was."""
    assert value_of(dump({"value": value})) == {"value": value}


@given(st.dictionaries(PRINTABLE, PRINTABLE, max_size=5))
def test_text_is_text_to_others(value: dict[str, str]) -> None:
    """PyYAML's own loader, dates and all, reads back the text that we wrote."""
    assert yaml.safe_load(dump({"value": value})) == {"value": value}


def test_aliases_are_followed() -> None:
    """An alias stands for its anchor's value."""
    assert value_of("a: &x {b: 1}\nc: *x\nd: &y text\ne: *y\n") == {
        "a": {"b": 1},
        "c": {"b": 1},
        "d": "text",
        "e": "text",
    }


def test_alias_bomb() -> None:
    """Aliases that stand for more than any honest document are refused, in no time."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    began = time.monotonic()
    with pytest.raises(YamlError, match="too much text"):
        load("\n".join(lines))
    assert time.monotonic() - began < 1


def test_few_aliases_of_much_text() -> None:
    """The bound is on text, not on nodes: few aliases of a long scalar are a bomb too."""
    text = f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 20)}]\n"
    with pytest.raises(YamlError, match="too much text"):
        load(text)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 'x\n\n\n", 1, "unexpected end"),
        ("a: 1\n b: 2\n", 1, "not allowed"),
        ("a: 1\nb: 2\na: 3\n", 2, "'a' stands there twice"),
        ("a: &a [*a]\n", 0, "nothing complete"),
        ("a: *b\n", 0, "nothing complete"),
        ("a: &b 1\n---\nc: *b\n", 2, "nothing complete"),
        ("a: 1\n<<: {b: 2}\n", 1, "merge keys"),
        ("a: 1\nb: !!binary x\n", 1, "tag"),
        ("a: 1\nb: !custom {}\n", 1, "tag"),
        ("? {a: 1}\n: 2\n", 0, "key must be text"),
        ("a: 1\n\nb: \x07\n", 2, "control characters"),
        ("[" * 5000, 0, "nesting"),
    ],
)
def test_faults_tell_their_line(text: str, line: int, message: str) -> None:
    """What is no YAML, or what JSON cannot say, is an error that tells the line."""
    with pytest.raises(YamlError, match=message) as error:
        load(text)
    assert error.value.line == line


def test_lines_of_items() -> None:
    """The lines of the objects in a list are told."""
    (document,) = load("# comment\nkind: List\nitems:\n- kind: A\n\n- kind: B\n")
    assert document.line == 1
    assert [document.lines[id(item)] for item in document.value["items"]] == [3, 5]


def test_documents() -> None:
    """A text may hold several documents, or none."""
    assert [document.value for document in load("a: 1\n---\nb: 2\n")] == [{"a": 1}, {"b": 2}]
    assert load("# nothing\n") == ()
