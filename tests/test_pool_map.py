"""A pool's map: one letter for each address, and no address lost or counted twice however much is folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import ref
from poolwarden.gc.states import States, count
from poolwarden.ipam.address import address_of, family_of, number_of
from poolwarden.ipam.pool import Pool
from poolwarden.ipam.ranges import AddressSet, address_set, parse_range
from poolwarden.ipam.verdict import Action, Finding, Reason, Verdict
from poolwarden.pool_map import MEANINGS, MOST_ALIKE, OUTSIDE, Cell, Fold, Row, cells_of, drawn, state_of

A, OUT = "10.0.0.10", "10.0.9.9"
WIDTH = 64


def ranges(*texts: str) -> AddressSet:
    """An address set."""
    return address_set(map(parse_range, texts))


def blue(*texts: str) -> Pool:
    """A pool of these ranges."""
    return Pool(ref("blue"), "uid", "1", ranges(*texts), ranges(*texts), ())


def found(address: str | None, verdict: Verdict, digest: str = "") -> Finding:
    """A finding; about a record if it has a digest."""
    return Finding(ref("blue"), address, verdict, Reason.OWNER_GONE, Action.NONE, "", record_digest=digest)


def letters(lines: list[Row | Fold]) -> Counter[str]:
    """How many addresses of each letter a map shows, folded ones included."""
    total: Counter[str] = Counter()
    for line in lines:
        if isinstance(line, Fold):
            total[line.cell.value] += line.number
        else:
            total.update(line.cells.replace(OUTSIDE, ""))
    return total


def by_state(shown: Mapping[str, int]) -> Counter[str]:
    """The same, by the state that each letter is counted in."""
    total: Counter[str] = Counter()
    for letter, number in shown.items():
        total[state_of(Cell(letter))] += number
    return total


def numbers_of(states: object) -> Counter[str]:
    """The states that hold an address, as numbers."""
    assert isinstance(states, States)
    fields = msgspec.structs.asdict(states)
    return Counter({name: fields[name] for name in ("allocated", "unknown", "cooldown", "free") if fields[name]})


# --- letters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("findings", "cell"),
    [
        ([], Cell.FREE),
        ([found(A, Verdict.IN_USE, "a")], Cell.ALLOCATED),
        ([found(A, Verdict.RETAINED, "a")], Cell.RETAINED),
        ([found(A, Verdict.UNKNOWN, "a")], Cell.UNKNOWN),
        ([found(A, Verdict.LEAKED, "a")], Cell.LEAKED),
        ([found(A, Verdict.LEAKED, "cooling")], Cell.COOLDOWN),
        ([found(A, Verdict.CONFLICT, "a")], Cell.CONFLICT),
        ([found(A, Verdict.CONFLICT)], Cell.UNRECORDED),
        ([found(A, Verdict.IN_USE)], Cell.CLAIMED),
        ([found(A, Verdict.IN_USE, "a"), found(A, Verdict.DRIFT)], Cell.DRIFT),
        ([found(A, Verdict.LEAKED, "a"), found(A, Verdict.DRIFT)], Cell.LEAKED),
        ([found(A, Verdict.IN_USE, "a"), found(A, Verdict.CONFLICT)], Cell.UNRECORDED),
        ([found(A, Verdict.DRIFT)], Cell.FREE),
        ([found(A, Verdict.UNKNOWN)], Cell.FREE),
        ([found(A, Verdict.LEAKED)], Cell.FREE),
        ([found(OUT, Verdict.LEAKED, "a"), found(None, Verdict.UNKNOWN, "b")], Cell.FREE),
    ],
)
def test_letters(findings: list[Finding], cell: Cell) -> None:
    """Each address has the letter of the worst that is found about it."""
    cells = cells_of(blue("10.0.0.10-10.0.0.19"), findings, frozenset({"cooling"}))
    assert cells == ({} if cell is Cell.FREE else {A: cell})


def test_every_letter_is_explained() -> None:
    """The legend knows each of them, and no two mean the same."""
    assert set(MEANINGS) == set(Cell)
    assert len(set(MEANINGS.values())) == len(Cell)


addresses = st.sampled_from([f"10.0.0.{number}" for number in range(8, 22)] + [OUT, "fd00::1"])
anything = st.builds(
    found, st.one_of(st.none(), addresses), st.sampled_from(list(Verdict)), st.sampled_from(["", "a", "b", "c", "d"])
)


@given(st.lists(anything, max_size=30), st.frozensets(st.sampled_from("abcd")))
def test_letters_are_the_counts(findings: list[Finding], cooling: frozenset[str]) -> None:
    """Whatever is found, the letters of a map add up to the states that are counted."""
    pool = blue("10.0.0.10-10.0.0.19")
    shown = letters(drawn(pool.ranges, cells_of(pool, findings, cooling), WIDTH))
    assert by_state(shown) == numbers_of(count(pool, findings, cooling))


# --- rows -------------------------------------------------------------------------------------------------------------


def test_rows() -> None:
    """A row begins at a multiple of its length; what the pool cannot hand out is blank."""
    (row,) = drawn(ranges("10.0.0.2-10.0.0.5"), {"10.0.0.3": Cell.LEAKED}, 8)
    assert row == Row("10.0.0.0", "  .L..  ")


def test_a_small_pool_is_never_folded() -> None:
    """Every row of a /24 is drawn."""
    lines = drawn(ranges("10.0.0.0-10.0.0.255"), {}, WIDTH)
    assert lines == [Row(f"10.0.0.{first}", "." * WIDTH) for first in (0, 64, 128, 192)]


def test_a_huge_pool_is_folded() -> None:
    """Of a /64 only the rows that hold something are drawn, and between them stands how much is free, exactly."""
    lines = drawn(ranges("fd00::-fd00::ffff:ffff:ffff:ffff"), {"fd00::1:0:5": Cell.ALLOCATED}, 32)
    assert lines == [
        Fold("fd00::", Cell.FREE, 1 << 32),
        Row("fd00::1:0:0", "....." + "a" + "." * 26),
        Fold("fd00::1:0:20", Cell.FREE, (1 << 64) - (1 << 32) - 32),
    ]


def test_rows_of_one_letter_are_folded() -> None:
    """A /16 whose addresses are all in use is one line, too."""
    cells = {address_of(4, number): Cell.ALLOCATED for number in range(0x0A000000, 0x0A010000)}
    assert drawn(ranges("10.0.0.0-10.0.255.255"), cells, WIDTH) == [Fold("10.0.0.0", Cell.ALLOCATED, 65536)]


def test_scattered_ranges_are_folded() -> None:
    """Free rows on both sides of a gap are one run."""
    scattered = ranges(*(f"10.0.{third}.1" for third in range(200)))
    assert drawn(scattered, {}, WIDTH) == [Fold("10.0.0.0", Cell.FREE, 200)]


def test_families_are_not_folded_together() -> None:
    """IPv4 and IPv6 have lines of their own."""
    lines = drawn(ranges("10.0.0.0-10.0.255.255", "fd00::-fd00::ffff"), {}, WIDTH)
    assert lines == [Fold("10.0.0.0", Cell.FREE, 65536), Fold("fd00::", Cell.FREE, 65536)]


def test_both_ends_of_a_family() -> None:
    """The first and the last address of all have their cells."""
    ends = ranges("0.0.0.0", "255.255.255.255")
    assert drawn(ends, {"255.255.255.255": Cell.LEAKED}, 8) == [
        Row("0.0.0.0", ".       "),
        Row("255.255.255.248", "       L"),
    ]


numbers = st.integers(0, 3000)
pools = st.lists(
    st.tuples(numbers, numbers, st.sampled_from(["10.0.{}.{}", "fd00::{:x}{:02x}"])), min_size=1, max_size=6
)


def spelled(form: str, number: int) -> str:
    """An address of a number."""
    return form.format(number // 256, number % 256)


@given(pools, st.lists(st.tuples(numbers, st.sampled_from([*Cell][1:])), max_size=40), st.sampled_from([32, 64]))
def test_no_address_is_lost(parts: list[tuple[int, int, str]], marks: list[tuple[int, Cell]], width: int) -> None:
    """Whatever the ranges, the map shows each address once, with its letter where it is not folded, and in order."""
    texts = [f"{spelled(form, min(a, b))}-{spelled(form, max(a, b))}" for a, b, form in parts]
    pool = ranges(*texts)
    everywhere = {parse_range(spelled(form, number)): cell for number, cell in marks for _, _, form in parts}
    cells = {str(single): cell for single, cell in everywhere.items() if str(single) in pool}
    lines = drawn(pool, cells, width)
    expected = Counter(cell.value for cell in cells.values()) + Counter({".": pool.size - len(cells)})
    assert letters(lines) == expected
    firsts = [(family_of(line.first), number_of(line.first)) for line in lines]
    assert firsts == sorted(set(firsts))
    for line in lines:
        for at, letter in enumerate(line.cells if isinstance(line, Row) else ""):
            address = address_of(family_of(line.first), number_of(line.first) + at)
            assert letter == (cells.get(address, Cell.FREE).value if address in pool else OUTSIDE)


def test_a_run_is_folded_from_five_rows_on() -> None:
    """Four rows of one letter are drawn, five are not."""
    assert len(drawn(ranges("10.0.0.0-10.0.0.31"), {}, 8)) == MOST_ALIKE
    assert drawn(ranges("10.0.0.0-10.0.0.39"), {}, 8) == [Fold("10.0.0.0", Cell.FREE, 40)]
