"""An audit on a terminal: tables and maps for people, in colours where there are any; every word stands without them.

Pools with trouble come first, the worst above all: unreadable ones, then conflicts, full pools, leaks, doubt, drift; the
others follow by how full they are. (The order of the JSON report is a contract, and another one.) The verdict on the
whole comes last, where a terminal's prompt is.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TextIO

from msgspec import Struct
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from poolwarden.gc.examine import PoolReport, cooling
from poolwarden.gc.report import conclusion
from poolwarden.gc.states import States
from poolwarden.ipam.address import V6, family_of, number_of
from poolwarden.ipam.pool import RecordsUnreadable
from poolwarden.ipam.ranges import AddressRange, address_set
from poolwarden.ipam.verdict import Action, Verdict
from poolwarden.plain import printable, wrapped
from poolwarden.pool_map import MEANINGS, OUTSIDE, Cell, Fold, Row, cells_of, drawn

PIPED_WIDTH = 80
WIDEST = 120
"""Columns: lines longer than that are hard to read, however wide the terminal."""
MOST_QUIET = 10
"""Pools without trouble that are shown of each IPAM; `--wide` shows all."""
MOST_TOLD = 25
"""Findings that are told of each pool; `--wide` tells all."""
MOST_RANGES = 3
"""Ranges of addresses that are named beside a finding which is the same for all of them."""
LONGEST_BESIDE = 24
"""Characters of an address that leave room for words beside it."""
LONG_ROW, SHORT_ROW = 64, 32
"""Addresses in a row of a map."""
TICK = 8
"""Addresses between two marks above a map."""
EXACT_BELOW = 1_000_000
"""Longer numbers are rounded where 80 columns must do."""
HIGH = 0.9
"""The share in use from which on a pool is nearly full."""
NUMBERS = ("SIZE", "ALLOC", "UNKN", "COOL", "FREE", "FULL", "FOUND", "LEAK", "CONFL", "DRIFT")
QUIET = 6
"""The rank of a pool without trouble."""
UUID = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")

VERDICT_STYLES: Mapping[str, str] = {
    Verdict.CONFLICT: "bold red",
    Verdict.LEAKED: "magenta",
    Verdict.UNKNOWN: "yellow",
    Verdict.DRIFT: "cyan",
}
CELL_STYLES: Mapping[Cell, str] = {
    Cell.FREE: "dim",
    Cell.ALLOCATED: "green",
    Cell.CLAIMED: "green",
    Cell.RETAINED: "blue",
    Cell.DRIFT: "cyan",
    Cell.LEAKED: "bold magenta",
    Cell.CONFLICT: "bold red",
    Cell.COOLDOWN: "magenta",
    Cell.UNKNOWN: "yellow",
    Cell.UNRECORDED: "bold red",
}

Report = Mapping[str, Any]
"""An AuditReport, as `gc.report.audit_report` makes it; likewise its pools and findings."""
PoolKey = tuple[str, str | None, str | None]


def console_on(stream: TextIO) -> Console:
    """Colours on a terminal that has some, unless NO_COLOR is set; elsewhere no codes at all, whatever FORCE_COLOR says."""
    if stream.isatty():
        return Console(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)
    return Console(
        file=stream,
        width=PIPED_WIDTH,
        force_terminal=False,
        color_system=None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_tables(stream: TextIO, report: Report) -> None:
    """Print `tables` in the width of the terminal."""
    console = console_on(stream)
    width = min(console.width, WIDEST)
    console.print(tables(report, width), width=width)


def print_wide(stream: TextIO, report: Report, nodes: Sequence[str]) -> None:
    """Print `wide_lines`, each as one line, however long."""
    console = console_on(stream)
    for line in wide_lines(report, nodes):
        console.print(line, soft_wrap=True)


def print_maps(stream: TextIO, pools: Sequence[PoolReport]) -> None:
    """Print `maps` in the width of the terminal."""
    console = console_on(stream)
    for line in maps(pools, console.width):
        console.print(line, soft_wrap=True)


# --- what is what -----------------------------------------------------------------------------------------------------


class _Line(Struct, frozen=True):
    """A pool of the report with what was found in it. `rank` is its trouble, 0 the worst; `label` names it shortly."""

    pool: Report
    label: str
    rank: int
    verdicts: Mapping[str, int]

    @property
    def used(self) -> float:
        """The share of its addresses that is not free, 0 to 1; 0 where it is not known."""
        pool = self.pool
        return 0.0 if pool["free"] is None or not pool["size"] else 1 - pool["free"] / pool["size"]


def _rank(pool: Report, verdicts: Mapping[str, int]) -> int:
    troubles = (
        pool["free"] is None,
        verdicts.get(Verdict.CONFLICT),
        pool["size"] and pool["free"] == 0,
        verdicts.get(Verdict.LEAKED),
        pool["unknown"] or verdicts.get(Verdict.UNKNOWN),
        pool["findings"],
    )
    return next((rank for rank, trouble in enumerate(troubles) if trouble), QUIET)


def _key(pool: Report) -> PoolKey:
    return pool["ipam"], pool["namespace"], pool["name"]


def _key_of_finding(finding: Report) -> PoolKey:
    return finding["ipam"], finding["poolNamespace"], finding["pool"]


def _full_name(namespace: str | None, name: str | None) -> str:
    return f"{namespace}/{name}" if namespace else name or "-"


def _lines(report: Report, *, wide: bool) -> list[_Line]:
    """The pools, worst first, those of one IPAM together."""
    verdicts: dict[PoolKey, Counter[str]] = {}
    for finding in report["findings"]:
        verdicts.setdefault(_key_of_finding(finding), Counter())[finding["verdict"]] += 1
    names = Counter((pool["ipam"], pool["name"]) for pool in report["pools"])
    lines = []
    for pool in report["pools"]:
        found = verdicts.get(_key(pool), Counter())
        alone = not wide and names[pool["ipam"], pool["name"]] == 1
        label = pool["name"] if alone else _full_name(pool["namespace"], pool["name"])
        lines.append(_Line(pool, label, _rank(pool, found), found))
    worst: dict[str, int] = {}
    for line in lines:
        ipam = line.pool["ipam"]
        worst[ipam] = min(worst.get(ipam, QUIET), line.rank)
    return sorted(lines, key=lambda line: (worst[line.pool["ipam"]], line.pool["ipam"], line.rank, -line.used))


# --- tables -----------------------------------------------------------------------------------------------------------


def tables(report: Report, width: int) -> Group:
    """The audit for a screen of so many columns, 80 or more: pools, then findings, then what it comes to."""
    report = printable(report)
    lines = _lines(report, wide=False)
    blocks: list[RenderableType] = [Group(*_pool_lines(lines, width))] if lines else []
    if report["findings"]:
        blocks += _finding_tables(report["findings"], lines)
    blocks.append(_conclusion(report))
    if report["findings"]:
        hint = "explain ADDRESS: all of one; audit --wide: UIDs, nodes, times; --map: a picture"
        blocks.append(Text(hint, style="dim"))
    return Group(*(part for at, block in enumerate(blocks) for part in (Text(), block)[not at :]))


def _conclusion(report: Report) -> Text:
    quiet = report["complete"] and report["pools"] and not report["findings"]
    return Text("\n".join(conclusion(report)), style="green" if quiet else "bold")


def _pool_lines(lines: Sequence[_Line], width: int) -> Iterator[Text]:
    """A line for each pool; a name that leaves no room for the numbers has them under it, so that it can be copied."""
    rows: list[tuple[Text, Sequence[Text]]] = [(Text("POOL", style="bold"), [Text(h, style="bold") for h in NUMBERS])]
    for ipam in dict.fromkeys(line.pool["ipam"] for line in lines):
        mine = [line for line in lines if line.pool["ipam"] == ipam]
        quiet = [line for line in mine if line.rank == QUIET][MOST_QUIET:]
        rows.append((Text(ipam, style="bold"), ()))
        rows += [(Text(f"  {line.label}"), _numbers(line, short=True)) for line in mine[: len(mine) - len(quiet)]]
        if quiet:
            most = f"at most {_percent(quiet[0])} full; --wide shows them"
            rows.append((Text(f"  … {len(quiet)} more without findings, {most}", style="dim"), ()))
    widths = [max(row[at].cell_len for _, row in rows if row) for at in range(len(NUMBERS))]
    room = width - sum(widths) - len(widths)
    name = min(room, max(text.cell_len for text, row in rows if row))
    for text, row in rows:
        if row and text.cell_len > name:
            yield text
        line = text if text.cell_len <= name or not row else Text()
        line.append(" " * (name - line.cell_len) * bool(row))
        for cell, cell_width in zip(row, widths, strict=False):
            line.append(" " * (cell_width - cell.cell_len + 1)).append_text(cell)
        yield line


def _numbers(line: _Line, *, short: bool) -> list[Text]:
    pool = line.pool
    states = [
        _number(pool["size"], short=short),
        _number(pool["allocated"], short=short),
        _number(pool["unknown"], "yellow", short=short),
        _number(pool["cooldown"], "magenta", short=short),
        Text(_count(pool["free"], short=short), style="" if pool["free"] else "bold red"),
    ]
    full = Text(_percent(line), style="bold red" if not pool["free"] else "yellow" if line.used > HIGH else "")
    verdicts = (Verdict.LEAKED, Verdict.CONFLICT, Verdict.DRIFT)
    found = _number(pool["findings"], short=short)
    return [*states, full, found, *(_number(line.verdicts.get(v, 0), VERDICT_STYLES[v], short=short) for v in verdicts)]


def _number(number: int | None, style: str = "", *, short: bool) -> Text:
    return Text(_count(number, short=short), style=style if number or number is None else "dim")


def _count(number: int | None, *, short: bool) -> str:
    """A count, zero as a dash so that the others strike the eye; a long one rounded where it must be `short`."""
    if number is None:
        return "?"
    if not short or 0 < number < EXACT_BELOW:
        return str(number)
    if not number:
        return "-"
    for unit, name in ((10**6, "M"), (10**9, "G")):
        if number < 999.5 * unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.1e}".replace("e+", "e")


def _percent(line: _Line) -> str:
    """How full a pool is. Never 0 % or 100 % unless it is."""
    pool = line.pool
    if pool["free"] is None:
        return "?"
    if not pool["size"]:
        return "-"
    used = pool["size"] - pool["free"]
    percent = used * 100 // pool["size"]
    return "<1%" if used and not percent else f"{percent}%"


class _Told(Struct):
    """Findings that say the same of several addresses: told once."""

    finding: Report
    addresses: list[str]


def _finding_tables(findings: Sequence[Report], lines: Sequence[_Line]) -> Iterator[RenderableType]:
    """One table for each pool under its name, all of them with columns of the same width."""
    labels = {_key(line.pool): line.label for line in lines}
    by_pool: dict[PoolKey, list[Report]] = {key: [] for key in labels}
    for finding in findings:
        by_pool.setdefault(_key_of_finding(finding), []).append(finding)
    for key, mine in by_pool.items():
        if not mine:
            continue
        label = labels.get(key) or _full_name(key[1], key[2])
        head = Text.assemble((f"{key[0]} ", "dim"), (label, "bold"), f"  {_tally(mine)}")
        told = _told_once(mine)
        rows = [(_ranges(item.addresses), _says(item)) for item in told[:MOST_TOLD]]
        left = sum(len(item.addresses) for item in told[MOST_TOLD:])
        rows += [("…", Text(f"{left} more findings in {label} (--wide shows them)", style="dim"))] if left else []
        yield Group(head, Padding(_finding_table(rows), (0, 0, 0, 2)))


def _finding_table(rows: Sequence[tuple[str, Text]]) -> Table:
    """Addresses beside what is said of them; above it where they are long ones of IPv6."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False, show_edge=False)
    beside = all(len(line) <= LONGEST_BESIDE for address, _ in rows for line in address.split("\n"))
    for address, says in rows:
        bold = Text(address, style="bold")
        if beside:
            table.add_row(bold, says)
        else:
            table.add_row(Group(bold, Padding(says, (0, 0, 0, 2))))
    return table


def _tally(findings: Sequence[Report]) -> str:
    counts = Counter(finding["verdict"] for finding in findings)
    order = (Verdict.CONFLICT, Verdict.LEAKED, Verdict.UNKNOWN, Verdict.DRIFT)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in order if counts[verdict])


def _told_once(findings: Iterable[Report]) -> list[_Told]:
    told: dict[tuple[str, ...], _Told] = {}
    for finding in findings:
        address = finding["address"] or "(pool)"
        message = finding["message"].replace(address, "")
        key = (finding["verdict"], finding["reason"], finding["action"], _owner(finding), message)
        told.setdefault(key, _Told(finding, [])).addresses.append(address)
    return list(told.values())


def _ranges(addresses: Sequence[str]) -> str:
    """Addresses, one range to a line; those of a pool itself as they are."""
    if len(addresses) == 1:
        return addresses[0]
    numbers = ((family_of(address), number_of(address)) for address in addresses if address != "(pool)")
    ranges = address_set(AddressRange(family, number, number) for family, number in numbers).ranges
    texts = [str(item).replace("-", "-\n") for item in ranges[:MOST_RANGES]]
    more = [f"… {len(ranges) - MOST_RANGES} more"] if len(ranges) > MOST_RANGES else []
    return "\n".join([*texts, *more]) or addresses[0]


def _owner(finding: Report) -> str:
    owner = finding["owner"]
    return f"{owner['namespace']}/{owner['name']}" if owner else ""


def _says(item: _Told) -> Text:
    finding, others = item.finding, len(item.addresses) - 1
    said = [(f"{finding['verdict']} · {finding['reason']}", VERDICT_STYLES[finding["verdict"]])]
    if finding["action"] != Action.NONE:
        said.append((f" → {finding['action']}", "bold green"))
    if _owner(finding):
        said.append((f"  {_owner(finding)}", "bold"))
    said.append(("\n" + UUID.sub(r"\1…", finding["message"]), ""))
    if others:
        said.append((f"\nThe same of {others} more address{'es' if others > 1 else ''}.", "dim"))
    return Text.assemble(*said)


# --- wide -------------------------------------------------------------------------------------------------------------


def wide_lines(report: Report, nodes: Sequence[str]) -> list[Text]:
    """The audit with everything, one line to a pool and to a finding; `nodes` are where the findings' owners last ran."""
    report = printable(report)
    lines = _lines(report, wide=True)
    heads = [
        "IPAM",
        "POOL",
        "SIZE",
        "ALLOCATED",
        "UNKNOWN",
        "COOLDOWN",
        "FREE",
        "FULL",
        "FINDINGS",
        "LEAKED",
        "CONFLICT",
        "DRIFT",
    ]
    pools = [[Text(line.pool["ipam"]), Text(line.label), *_numbers(line, short=False)] for line in lines]
    blocks = [list(_aligned(heads, pools))] if pools else []
    if report["findings"]:
        place = {_key(line.pool): at for at, line in enumerate(lines)}
        rows = sorted(
            zip(report["findings"], nodes, strict=True), key=lambda row: place.get(_key_of_finding(row[0]), len(place))
        )
        heads = [
            "IPAM",
            "POOL",
            "ADDRESS",
            "VERDICT",
            "REASON",
            "ACTION",
            "OWNER",
            "UID",
            "INTERFACE",
            "NODE",
            "FIRSTSEEN",
            "MESSAGE",
        ]
        blocks.append(list(_aligned(heads, [_wide_finding(finding, node) for finding, node in rows])))
    blocks.append([_conclusion(report)])
    return [line for at, block in enumerate(blocks) for line in ([Text()] if at else []) + block]


def _wide_finding(finding: Report, node: str) -> list[Text]:
    owner = finding["owner"]
    return [
        Text(finding["ipam"]),
        Text(_full_name(finding["poolNamespace"], finding["pool"])),
        Text(finding["address"] or "(pool)", style="bold"),
        Text(finding["verdict"], style=VERDICT_STYLES[finding["verdict"]]),
        Text(finding["reason"]),
        Text(finding["action"], style="bold green" if finding["action"] != Action.NONE else "dim"),
        Text(f"{owner['kind']} {_owner(finding)}" if owner else "-"),
        Text(owner["uid"] or "-" if owner else "-"),
        Text(finding["interface"] or "-"),
        Text(printable(node) or "-"),
        Text(finding["firstSeen"] or "-"),
        Text(finding["message"]),
    ]


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[Text]]) -> Iterator[Text]:
    """Columns as `kubectl get` prints them, without blanks at the end of a line."""
    cells = [[Text(head, style="bold") for head in heads], *rows]
    widths = [max(row[at].cell_len for row in cells) for at in range(len(heads))]
    for row in cells:
        line = Text()
        for at, cell in enumerate(row):
            line.append_text(cell)
            if at + 1 < len(row):
                line.append(" " * (widths[at] - cell.cell_len + 2))
        yield line


# --- map --------------------------------------------------------------------------------------------------------------


def maps(pools: Sequence[PoolReport], width: int) -> list[Text]:
    """The addresses of each pool, and a legend of the letters that occur; `width` in columns."""
    texts: list[Text] = []
    seen: set[Cell] = set()
    for report in pools:
        cells = cells_of(report.pool, report.findings, cooling(report.ledger.entries))
        seen |= set(cells.values())
        texts += [*_map_head(report, width), *_map_body(report, cells, width), Text()]
    legend = Text()
    for cell in [cell for cell in Cell if cell in seen | {Cell.FREE}] if pools else []:
        legend.append(cell.value, style=CELL_STYLES[cell]).append(f" {MEANINGS[cell]}   ")
    legend.rstrip()
    return [*texts, legend]


def _map_head(report: PoolReport, width: int) -> Iterator[Text]:
    ref, states = report.pool.ref, report.states
    name = printable(f"{ref.ipam} {_full_name(ref.namespace, ref.name)}")
    counts = ""
    if isinstance(states, States):
        numbers = {state: getattr(states, state) for state in ("allocated", "unknown", "cooldown", "free")}
        counts = f"{states.size} = {' + '.join(f'{n} {state}' for state, n in numbers.items() if n) or 'none'}"
    if cell_len(name) + 2 + len(counts) <= width:
        yield Text.assemble((name, "bold"), f"  {counts}" if counts else "")
    else:
        yield Text(name, style="bold")
        yield Text(counts)


def _map_body(report: PoolReport, cells: Mapping[str, Cell], width: int) -> Iterator[Text]:
    pool = report.pool
    if isinstance(pool.records, RecordsUnreadable):
        for words in wrapped(f"its records cannot be read: {printable(pool.records.problem)}", width):
            yield Text(words, style="bold red")
        return
    lines = drawn(pool.ranges, cells, LONG_ROW)
    length = LONG_ROW
    if max((len(line.first) for line in lines), default=0) + 1 + LONG_ROW > width:
        lines, length = drawn(pool.ranges, cells, SHORT_ROW), SHORT_ROW
    label = max((len(line.first) for line in lines), default=0) + 1
    family = 0
    for line in lines:
        if family != family_of(line.first):
            family = family_of(line.first)
            ticks = "".join(
                f"+{at:x}".ljust(TICK) if family == V6 else f"+{at}".ljust(TICK) for at in range(0, length, TICK)
            )
            yield Text(" " * label + ticks.rstrip(), style="dim")
        yield _drawn_line(line, label)
    if not lines:
        yield Text("it has no address to hand out", style="dim")
    outside = len(
        {f.address for f in report.findings if f.record_digest and f.address and f.address not in pool.ranges}
    )
    if outside:
        yield Text(f"{outside} recorded address{'es' if outside > 1 else ''} outside its ranges", style="yellow")


def _drawn_line(line: Row | Fold, label: int) -> Text:
    text = Text(line.first.ljust(label))
    if isinstance(line, Fold):
        return text.append(f"… {line.number} {MEANINGS[line.cell]} …", style=CELL_STYLES[line.cell])
    for letter, run in groupby(line.cells.rstrip()):
        text.append("".join(run), style=CELL_STYLES[Cell(letter)] if letter != OUTSIDE else "")
    return text
