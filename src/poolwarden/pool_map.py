"""A pool as a map: one letter for each address, in rows. What goes on for long is folded, so a /64 fits a screen."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import groupby

from msgspec import Struct

from poolwarden.ipam.address import Family, address_of, family_of, number_of
from poolwarden.ipam.pool import Pool
from poolwarden.ipam.ranges import AddressRange, AddressSet, address_set
from poolwarden.ipam.verdict import Finding, Verdict

MOST_ALIKE = 4
"""Rows of one letter that are drawn; a longer run is folded into one line. A /24 is never folded."""
OUTSIDE = " "
"""The cell of an address that the pool cannot hand out."""


class Cell(StrEnum):
    """What an address of a pool is. Each letter is of one state of `gc.states`, which `state_of` names."""

    FREE = "."
    ALLOCATED = "a"
    CLAIMED = "m"
    RETAINED = "r"
    DRIFT = "d"
    LEAKED = "L"
    CONFLICT = "!"
    COOLDOWN = "c"
    UNKNOWN = "?"
    UNRECORDED = "u"


MEANINGS: Mapping[Cell, str] = {
    Cell.FREE: "free",
    Cell.ALLOCATED: "allocated",
    Cell.CLAIMED: "claimed, in use",
    Cell.RETAINED: "retained",
    Cell.DRIFT: "drift",
    Cell.LEAKED: "leaked",
    Cell.CONFLICT: "conflict",
    Cell.COOLDOWN: "cooldown",
    Cell.UNKNOWN: "unknown",
    Cell.UNRECORDED: "used without a record",
}


def state_of(cell: Cell) -> str:
    """The state, a field of `gc.states.States`, in which an address of that letter is counted."""
    match cell:
        case Cell.FREE:
            return "free"
        case Cell.COOLDOWN:
            return "cooldown"
        case Cell.UNKNOWN | Cell.UNRECORDED:
            return "unknown"
        case _:
            return "allocated"


def cells_of(pool: Pool, findings: Iterable[Finding], cooling: AbstractSet[str]) -> dict[str, Cell]:
    """Every address of the pool's ranges that is not free. `cooling` are the digests of records in cooldown."""
    at: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.address is not None and finding.address in pool.ranges:
            at.setdefault(finding.address, []).append(finding)
    cells = {address: _cell(found, cooling) for address, found in at.items()}
    return {address: cell for address, cell in cells.items() if cell is not Cell.FREE}


def _cell(found: Sequence[Finding], cooling: AbstractSet[str]) -> Cell:
    """The letter of an address with these findings: the state first, as it is counted, then the worst within it."""
    recorded = {finding.verdict for finding in found if finding.record_digest}
    beside = {finding.verdict for finding in found if not finding.record_digest}
    if Verdict.CONFLICT in beside:
        return Cell.UNRECORDED
    if Verdict.UNKNOWN in recorded:
        return Cell.UNKNOWN
    if any(finding.record_digest in cooling for finding in found if finding.record_digest):
        return Cell.COOLDOWN
    if not recorded:
        return Cell.CLAIMED if Verdict.IN_USE in beside else Cell.FREE
    if Verdict.CONFLICT in recorded:
        return Cell.CONFLICT
    if Verdict.LEAKED in recorded:
        return Cell.LEAKED
    if Verdict.DRIFT in recorded | beside:
        return Cell.DRIFT
    return Cell.RETAINED if Verdict.RETAINED in recorded else Cell.ALLOCATED


class Row(Struct, frozen=True):
    """One line of cells; `first` is the address of its first one, be it of the pool or not."""

    first: str
    cells: str


class Fold(Struct, frozen=True):
    """Many rows of one letter; `first` as in `Row`, `number` are the addresses in them."""

    first: str
    cell: Cell
    number: int


def drawn(ranges: AddressSet, cells: Mapping[str, Cell], width: int) -> list[Row | Fold]:
    """The map of an address set, `width` cells to a row; `cells` are those that are not free."""
    lines: list[Row | Fold] = []
    for _, group in groupby(_lines(ranges, cells, width), key=_alike):
        run = list(group)
        if len(run) > MOST_ALIKE or any(isinstance(line, Fold) for line in run):
            lines.append(_folded(run))
        else:
            lines += run
    return lines


def _lines(ranges: AddressSet, cells: Mapping[str, Cell], width: int) -> Iterator[Row | Fold]:
    """Rows in order; long stretches without a marked cell are folded unseen, since nobody could walk a /64."""
    marked: dict[tuple[Family, int], dict[int, Cell]] = {}
    for address, cell in cells.items():
        number = number_of(address)
        marked.setdefault((family_of(address), number // width), {})[number] = cell
    # Sets of row numbers are sets of numbers like those of addresses.
    rows = address_set(AddressRange(item.family, item.first // width, item.last // width) for item in ranges.ranges)
    held = address_set(AddressRange(family, row, row) for family, row in marked)
    singles = (AddressRange(family, row, row) for family, row in marked)
    for stretch in sorted((*(rows - held).ranges, *singles)):
        if stretch.size > MOST_ALIKE:
            span = AddressRange(stretch.family, stretch.first * width, (stretch.last + 1) * width - 1)
            free = (ranges & AddressSet((span,))).size
            yield Fold(address_of(stretch.family, span.first), Cell.FREE, free)
            continue
        for row in range(stretch.first, stretch.last + 1):
            yield _row(ranges, AddressRange(stretch.family, row * width, (row + 1) * width - 1), marked)


def _row(ranges: AddressSet, span: AddressRange, marked: Mapping[tuple[Family, int], Mapping[int, Cell]]) -> Row:
    cells = [OUTSIDE] * span.size
    for part in (ranges & AddressSet((span,))).ranges:
        cells[part.first - span.first : part.last - span.first + 1] = [Cell.FREE] * part.size
    for number, cell in marked.get((span.family, span.first // span.size), {}).items():
        cells[number - span.first] = cell
    return Row(address_of(span.family, span.first), "".join(cells))


def _alike(line: Row | Fold) -> tuple[bool, str]:
    """Equal for lines of one family that hold one letter and the same one; else the line's own."""
    if isinstance(line, Fold):
        return ":" in line.first, line.cell
    letters = set(line.cells) - {OUTSIDE}
    return ":" in line.first, letters.pop() if len(letters) == 1 else line.first


def _folded(run: Sequence[Row | Fold]) -> Fold:
    number = sum(line.number if isinstance(line, Fold) else len(line.cells) - line.cells.count(OUTSIDE) for line in run)
    return Fold(run[0].first, Cell(_alike(run[0])[1]), number)
