import json
import time
from collections.abc import Sequence

import msgspec
import pytest

from poolwarden.cluster.documents import Fault, Given, parse

POD = b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: blue\n"
NODE = b"apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n"
JSON_POD = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j","namespace":"blue"}}'


def read(text: bytes) -> tuple[list[Given], list[Fault]]:
    """The objects and the faults of a text."""
    found = list(parse(text, "f"))
    return [one for one in found if isinstance(one, Given)], [one for one in found if isinstance(one, Fault)]


def objects(text: bytes) -> list[str]:
    """What was read of a text without faults: `kind namespace/name line`."""
    given, faults = read(text)
    assert faults == []
    return [f"{one.kind} {one.namespace}/{one.name} {one.where}" for one in given]


def fault(text: bytes) -> Fault:
    """The only fault of a text."""
    _, faults = read(text)
    (one,) = faults
    return one


def test_yaml_documents() -> None:
    """Documents are separated by lines of ---, and known by the line on which they begin."""
    assert objects(POD + b"---\n" + NODE) == ["Pod blue/a f:1", "Node /n1 f:7"]
    assert objects(b"# comment\n---\n" + POD + b"--- # comment\n" + NODE + b"...\n") == [
        "Pod blue/a f:3",
        "Node /n1 f:9",
    ]


def test_yaml_list() -> None:
    """The items of a List are objects with lines of their own; kinds may be mixed."""
    text = b"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: n1}\n- apiVersion: apps/v1\n"
    text += b"  kind: StatefulSet\n  metadata: {name: s, namespace: blue}\nkind: List\nmetadata: {}\n"
    assert objects(text) == ["Node /n1 f:3", "StatefulSet blue/s f:6"]
    assert [one.group for one in read(text)[0]] == ["", "apps"]


def test_json() -> None:
    """One object, or a List, pretty-printed or not."""
    assert objects(JSON_POD) == ["Pod blue/j f:1"]
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": [json.loads(JSON_POD)]}, indent=4).encode()
    assert objects(text) == ["Pod blue/j f:5"]


def test_json_documents() -> None:
    """JSON documents may follow one another with or without anything in between, and stand beside YAML."""
    assert objects(JSON_POD + b"\n" + JSON_POD + JSON_POD) == ["Pod blue/j f:1", "Pod blue/j f:2", "Pod blue/j f:2"]
    assert objects(b"---\n" + JSON_POD + b"\n---\n" + POD + b"---\n" + JSON_POD) == [
        "Pod blue/j f:2",
        "Pod blue/a f:4",
        "Pod blue/j f:10",
    ]


def test_typed_lists() -> None:
    """The items of a PodList take kind and version from it, and carry them from then on."""
    given, faults = read(b'{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a","namespace":"b"}}]}')
    assert faults == []
    assert (given[0].kind, given[0].group) == ("Pod", "")
    assert msgspec.json.decode(given[0].raw) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "b"},
    }


@pytest.mark.parametrize(
    "text", [b"kind: List\nitems: []\n", b"kind: List\nitems:\n", b'{"kind":"PodList","items":[]}']
)
def test_empty_lists(text: bytes) -> None:
    """A list of nothing is not wrong."""
    assert objects(text) == []


def test_a_kind_that_ends_in_list() -> None:
    """An object with a name is an object, whatever its kind is called."""
    assert objects(b"apiVersion: a.b/v1\nkind: AllowList\nmetadata: {name: x}\nitems: [1]\n") == ["AllowList /x f:1"]


def test_raw_text_is_kept() -> None:
    """A JSON object is kept to the byte, a YAML object as the JSON it stands for."""
    assert bytes(read(JSON_POD)[0][0].raw) == JSON_POD
    assert msgspec.json.decode(read(POD)[0][0].raw) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "blue"},
    }


@pytest.mark.parametrize(
    "text",
    [b"\xef\xbb\xbf" + POD, POD.replace(b"\n", b"\r\n"), b"%YAML 1.1\n---\n" + POD],
    ids=["byte order mark", "CRLF", "directive"],
)
def test_other_hands(text: bytes) -> None:
    """What Windows or another program made of the text does not matter."""
    assert [one.name for one in read(text)[0]] == ["a"]
    assert read(text)[1] == []


@pytest.mark.parametrize(
    ("text", "message", "kind"),
    [
        (b"", "f: empty", ""),
        (b"\n# nothing\n---\n", "f: empty", ""),
        (POD + b"\xff", "f:6: not UTF-8", ""),
        ("kind: Pod".encode("utf-16"), "f: UTF-16, not UTF-8 (PowerShell: ... | Out-File -Encoding utf8)", ""),
        (b"apiVersion: v1\nmetadata: {name: a}\n", "f:1: object without kind", ""),
        (b"kind: Pod\nmetadata: {name: a}\n", "f:1: Pod without apiVersion", "Pod"),
        (b"kind: Pod\napiVersion: v1\n", "f:1: Pod without metadata.name", "Pod"),
        (
            b"kind: Pod\napiVersion: v1\nmetadata: {name: 1}\n",
            "f:1: Expected `str | null`, got `int` - at `$.metadata.name`",
            "Pod",
        ),
        (b"kind: List\napiVersion: v1\n", "f:1: List without metadata.name", ""),
        (b"kind: List\nitems: 5\n", "f:1: Expected `array | null`, got `int`", ""),
        (b"kind: List\nitems:\n- kind: Pod\n  apiVersion: v1\n", "f:3: Pod without metadata.name", "Pod"),
        (b"kind: List\nitems:\n- metadata: {name: a}\n", "f:3: object without kind", ""),
        (b'{"kind":"PodList","apiVersion":"v1",\n"items":[{}]}', "f:2: Pod without metadata.name", "Pod"),
        (b'{"kind":"List","items":[\n1]}', "f:2: Expected `object`, got `int`", ""),
        (b"hello\n", "f:1: no Kubernetes object", ""),
        (b"[1]\n", "f:1: no Kubernetes object", ""),
        (b"{\n}", "f:1: no Kubernetes object", ""),
    ],
)
def test_faults(text: bytes, message: str, kind: str) -> None:
    """A fault tells file, line and what is missing, and which kind may be incomplete for it."""
    assert (fault(text).message, fault(text).kind) == (message, kind)


def test_foreign_documents() -> None:
    """Only a document without any mark of an object is another program's; the ruin of an object is not."""
    assert fault(b"answer: 42\n").foreign
    assert not fault(b"spec: {}\n").foreign
    assert not fault(b"kind: List\nitems:\n- null\n").foreign


def test_broken_yaml_spoils_no_other_document() -> None:
    """The rest is read; the fault tells its line in the file, and its kind where the text leaves no doubt."""
    given, faults = read(POD + b"---\nkind: Node\nmetadata:\n  name: 'x\n---\n" + NODE)
    assert [one.kind for one in given] == ["Pod", "Node"]
    assert [(one.message, one.kind) for one in faults] == [("f:9: found unexpected end of stream", "Node")]


@pytest.mark.parametrize(
    "text",
    [
        b"kind: Pod\nkind: Node\n---\n" + POD,
        b"kind: List\nx: 'y\n---\n" + POD,
        b"kind: Pod\nitems:\n- 'y\n---\n" + POD,
        b"x: 'y\n---\n" + POD,
        POD + b"---\nkind: Pod\nx: 'y\n",
    ],
    ids=["two kinds", "a list", "items", "no kind", "the last, so perhaps cut off"],
)
def test_broken_yaml_of_unknown_extent(text: bytes) -> None:
    """Where a broken text may hold or have been followed by other objects, any kind may be incomplete."""
    assert fault(text).kind == ""


def test_broken_json_spoils_no_other_document() -> None:
    """After a broken document the next one is found at the start of a line."""
    given, faults = read(b'{"kind": "Pod",\n  "x": {,\n  {}\n}\n' + JSON_POD + b'\n{"kind":')
    assert [one.where for one in given] == ["f:5"]
    assert [one.message for one in faults] == [
        "f:2: Expecting property name enclosed in double quotes",
        "f:6: Expecting value",
    ]


def test_cut_off_list() -> None:
    """A dump that ends early is a fault, in both forms."""
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": [json.loads(JSON_POD)] * 3}, indent=4).encode()
    assert fault(text[: len(text) // 2]).kind == ""
    items = b"apiVersion: v1\nitems:\n" + b"- apiVersion: v1\n  kind: Pod\n  metadata: {name: a, namespace: b}\n" * 3
    assert fault(items).message == "f:1: object without kind"


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":' * 5000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"a: " + b"[" * 5000,
        b"- " * 5000 + b"x",
        b"{" + b'"a":' * 9,
    ],
)
def test_deep_nesting(text: bytes) -> None:
    """Nesting beyond reason is a fault, never a crash."""
    assert isinstance(fault(text), Fault)


def test_large_numbers() -> None:
    """A number that no machine holds is a fault of its document at most."""
    given, _ = read(b'{"x":' + b"9" * 10000 + b"}" + JSON_POD)
    assert [one.name for one in given] == ["j"]


@pytest.mark.parametrize(
    "text", [b"\n" * 200_000 + b"x", b"# c\n" * 100_000, b" " * 500_000, b"{" * 3000 + b"\n{" * 3000]
)
def test_hostile_text_is_read_in_time(text: bytes) -> None:
    """No pattern backtracks for long."""
    began = time.monotonic()
    list(parse(text, "f"))
    assert time.monotonic() - began < 2


def lines_of(faults: Sequence[Fault]) -> list[str]:
    """Where faults are."""
    return [one.message.partition(": ")[0] for one in faults]


def test_lines_after_crlf_and_markers() -> None:
    """Lines are counted over the whole file, whatever stands between the documents."""
    _, faults = read(b"---\r\n---\r\n" + POD + b"---\n\n\n--- {kind: Pod}\n---\nkind: Pod\n")
    assert lines_of(faults) == ["f:11", "f:13"]
