"""Names of network interfaces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolwarden.ipam.interface import InvalidName, NameRule, ValidName, check_name, multus_name

TELLING = {
    NameRule.EMPTY: "empty",
    NameRule.TOO_LONG: "15",
    NameRule.DOTS: "'.'",
    NameRule.RESERVED: "all",
    NameRule.CHARACTER: "ASCII",
    NameRule.TEMPLATE: "'%'",
}


@pytest.mark.parametrize(
    "name", ["eth0", "a", "net1", "...", "a.b", ".a", "-", "x@y", "~", "!", "All", "exactly15bytes_"]
)
def test_valid_names(name: str) -> None:
    """Printable ASCII of up to 15 bytes, but for '/', ':' and '%'."""
    assert check_name(name) == ValidName(name)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", NameRule.EMPTY),
        ("sixteen_bytes_16", NameRule.TOO_LONG),
        ("e" * 16, NameRule.TOO_LONG),
        ("é" * 8, NameRule.TOO_LONG),
        ("/" * 16, NameRule.TOO_LONG),
        (".", NameRule.DOTS),
        ("..", NameRule.DOTS),
        ("all", NameRule.RESERVED),
        ("default", NameRule.RESERVED),
        ("%d", NameRule.TEMPLATE),
        ("eth%d", NameRule.TEMPLATE),
        ("a/b", NameRule.CHARACTER),
        ("a:b", NameRule.CHARACTER),
        ("a b", NameRule.CHARACTER),
        (" a", NameRule.CHARACTER),
        ("a\t", NameRule.CHARACTER),
        ("a\n", NameRule.CHARACTER),
        ("a\0", NameRule.CHARACTER),
        ("\x7f", NameRule.CHARACTER),
        ("é", NameRule.CHARACTER),
        ("ethé", NameRule.CHARACTER),
        ("\N{NO-BREAK SPACE}", NameRule.CHARACTER),
        ("\ud800", NameRule.CHARACTER),
    ],
)
def test_invalid_names(name: str, rule: NameRule) -> None:
    """Each rule, and a message that says what is allowed."""
    found = check_name(name)
    assert isinstance(found, InvalidName)
    assert (found.name, found.rule) == (name, rule)
    assert TELLING[rule] in found.message


def test_length_counts_bytes() -> None:
    """Seven two-byte letters and one more are too long, though they are eight characters."""
    found = check_name("é" * 7 + "ab")
    assert isinstance(found, InvalidName)
    assert found.rule is NameRule.TOO_LONG
    assert "16 bytes" in found.message


@given(st.text(max_size=20))
def test_a_valid_name_is_what_the_kernel_takes(name: str) -> None:
    """Written down once more: dev_valid_name, without names that are folders or templates."""
    fits = 0 < len(name.encode()) <= 15 and name not in {".", "..", "all", "default"}
    plain = name.isascii() and name.isprintable() and not set(name) & set("/:% ")
    assert isinstance(check_name(name), ValidName) == (fits and plain)


def test_names_that_multus_gives() -> None:
    """The cluster network is eth0, the others are numbered from 1."""
    assert [multus_name(position) for position in range(3)] == ["eth0", "net1", "net2"]
