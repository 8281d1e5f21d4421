"""Lines for people: nothing that a terminal would obey, nothing wider than it."""

import io

import pytest

from poolwarden.plain import printable, say, wrapped


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """As a terminal answers."""
        return True


def test_control_characters_do_not_reach_a_reader() -> None:
    """Whatever a name holds, a line stays one line, and no escape sequence is printed."""
    out = io.StringIO()
    say(["pool \x1b[2Jx\x07 y\r\u202ez", "two\nlines"], out)
    assert out.getvalue() == "pool �[2Jx� y��z\ntwo lines\n"


def test_reports_are_printable_all_through() -> None:
    """Keys apart, which are ours."""
    assert printable({"a": ["b\x1b", 1, None], "c": {"d": "\x9b"}}) == {"a": ["b�", 1, None], "c": {"d": "�"}}


def test_lines_are_left_whole_but_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is piped may be searched line by line."""
    monkeypatch.setenv("COLUMNS", "80")
    line = "  verdict   " + "word " * 30 + "end"
    piped, seen = io.StringIO(), Terminal()
    say([line], piped)
    say([line], seen)
    assert piped.getvalue() == f"{line}\n"
    first, *others = seen.getvalue().splitlines()
    assert first.startswith("  verdict   word")
    assert others
    assert all(len(part) <= 80 and part.startswith(" " * 12 + "word") for part in others)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("", [""]),
        ("short", ["short"]),
        ("  range     inside 10.0.0.0/24", ["  range     inside", "            10.0.0.0/24"]),
        ("poolwarden: a b c d e f g h i", ["poolwarden: a b c d", "    e f g h i"]),
        ("  record    {'a':'bbbbbbbbbbbbbbbb'}", ["  record    {'a':'bbbbbbbbbbbbbbbb'}"]),
        ("    deep text that goes on", ["    deep text that", "        goes on"]),
        ("    ", ["    "]),
        ("  漢字      漢字漢 字漢字漢", ["  漢字      漢字漢", "            字漢字漢"]),
    ],
)
def test_where_a_line_is_continued(line: str, parts: list[str]) -> None:
    """Under the text after its label, or a little to the right; no word is broken."""
    assert wrapped(line, 20) == parts
