"""What an audit looks like on a terminal: all of it within 80 columns, the worst first, and no codes elsewhere."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from factories import Object, blue, claim, endpoint, pod, pool
from faults import World
from poolwarden import terminal
from poolwarden.cluster.files import Files
from poolwarden.cluster.inputs import read
from poolwarden.gc.examine import PoolReport, examine, kept_ledgers, pool_reports
from poolwarden.gc.policy import Policy
from poolwarden.gc.report import audit_report, reported

ROOT = Path(__file__).parents[1]
DUMPS = [
    folder
    for parent in ("tests/cases/audit", "tests/threads", "tests/dumps", "examples")
    for folder in sorted((ROOT / parent).iterdir())
    if folder.is_dir() and folder.name not in {"review", "__pycache__"}
]
WIDTH = 80
A, B, C, D = "10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13"
CODE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[([0-9]+;)*(3[0-7]|9[0-7])(;[0-9]+)*m")
LIVE = pod("live", ips=[B])
LIVE_NIC = endpoint(LIVE, {"eth0": f"{B}@blue"})
HEALTHY = (blue({B: LIVE}), LIVE, LIVE_NIC)
LEAKING = (blue({A: claim("app"), B: LIVE}), LIVE, LIVE_NIC)


class Audit:
    """The audit of a cluster, as each of its prints is made from it."""

    def __init__(self, cluster: Any) -> None:
        judged = examine(cluster, Policy(node_gone_grace=0))
        self.pools: tuple[PoolReport, ...] = pool_reports(judged, kept_ledgers(judged))
        self.report: Mapping[str, Any] = audit_report(judged, self.pools, complete=not judged.problems)
        self.nodes = [finding.node for finding in reported(judged, self.pools)]

    def tables(self, width: int = WIDTH) -> list[str]:
        """The lines of the tables."""
        console = Console(record=True, file=io.StringIO(), width=width, force_terminal=True)
        console.print(terminal.tables(self.report, width), width=width)
        return console.export_text().splitlines()

    def wide(self) -> list[str]:
        """The lines of --wide."""
        return [line.plain for line in terminal.wide_lines(self.report, self.nodes)]

    def maps(self, width: int = WIDTH) -> list[str]:
        """The lines of --map."""
        return [line.plain for line in terminal.maps(self.pools, width)]


def audit(*objects: Object) -> Audit:
    """The audit of these objects, and nothing else."""
    return Audit(World(*objects))


def of_files(folder: Path) -> Audit:
    """The audit of a dump."""
    when = datetime(2026, 11, 30, 18, tzinfo=UTC)
    return Audit(Files(read([str(folder)]), clock=lambda: when, assume_complete=True))


def text(lines: Sequence[str]) -> str:
    """Lines as running text: a paragraph's breaks are blanks."""
    return " ".join(" ".join(lines).split())


def below(lines: Sequence[str], head: str) -> str:
    """The first line that begins with it."""
    return next(line for line in lines if line.strip().startswith(head))


# --- tables -----------------------------------------------------------------------------------------------------------


def test_tables() -> None:
    """Pools with their states, findings under their pool, and what it comes to at the end."""
    lines = [line.rstrip() for line in audit(*LEAKING).tables()]
    assert lines == [
        "POOL   SIZE ALLOC UNKN COOL FREE FULL FOUND LEAK CONFL DRIFT",
        "spiderpool",
        "  blue   21     2    -    -   19   9%     1    1     -     -",
        "",
        "spiderpool blue  1 Leaked",
        "  10.0.0.10  Leaked · OwnerGone → release  default/app",
        "             10.0.0.10 is recorded for default/app (UID app-uid), but no pod of",
        "             that UID exists",
        "",
        "1 Leaked; 1 address would be released.",
        "",
        "explain ADDRESS: all of one; audit --wide: UIDs, nodes, times; --map: a picture",
    ]


@pytest.mark.parametrize("folder", DUMPS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_80_columns(folder: Path) -> None:
    """Of every dump nothing is wider than 80 columns, and every pool, verdict and reason is there."""
    seen = of_files(folder)
    lines = seen.tables()
    assert [line for line in lines if len(line) > WIDTH] == []
    told = text(lines)
    for found in seen.report["findings"]:
        assert f"{found['verdict']} · {found['reason']}" in told
        assert terminal.UUID.sub(r"\1…", found["message"]) in told or "The same of" in told
    for one in seen.report["pools"]:
        assert any(one["name"] in line for line in lines)
    assert [line for line in seen.maps() if len(line) > WIDTH] == []


def test_healthy() -> None:
    """Nothing amiss is the pools and three words, without a hint."""
    lines = audit(*HEALTHY).tables()
    assert len(lines) == 5
    assert lines[-1] == "Nothing to report."


def test_trouble_first() -> None:
    """Unreadable pools, conflicts, full pools, leaks, doubt, then the others, the fullest first."""
    clash, other = (pod(name, ips=["10.2.0.10"]) for name in ("clash", "other"))
    full = pod("full", ips=["10.3.0.10"])
    half = pod("half", ips=["10.4.0.10"])
    lines = audit(
        pool("a-empty", "10.1.0.10-10.1.0.11"),
        pool("b-half", "10.4.0.10-10.4.0.11", {"10.4.0.10": half}),
        pool("c-leak", "10.5.0.10-10.5.0.30", {"10.5.0.10": claim("app")}),
        pool("d-full", "10.3.0.10", {"10.3.0.10": full}),
        pool("e-conflict", "10.2.0.10-10.2.0.30", {"10.2.0.10": clash}),
        pool("f-unreadable", "10.6.0.10-10.6.0.30", "{"),
        *(clash, other, full, half),
        *(
            endpoint(one, {"eth0": f"{ip}@{name}"})
            for one, ip, name in (
                (full, "10.3.0.10", "d-full"),
                (half, "10.4.0.10", "b-half"),
                (other, "10.2.0.10", "e-conflict"),
            )
        ),
    ).tables()
    names = [line.split()[0] for line in lines[2:8]]
    assert names == ["f-unreadable", "e-conflict", "d-full", "c-leak", "b-half", "a-empty"]
    assert below(lines, "f-unreadable").split()[2:7] == ["?"] * 5
    assert "100%" in below(lines, "d-full")


def test_many_quiet_pools() -> None:
    """Of the pools without findings the ten fullest are shown, the others are counted."""
    pools = [pool(f"p{number:02}", f"10.{number}.0.10-10.{number}.0.20") for number in range(1, 41)]
    lines = audit(*LEAKING, *pools).tables()
    assert "  … 30 more without findings, at most 0% full; --wide shows them" in lines
    assert sum(line.startswith("  p") for line in lines) == 10
    assert "blue" in lines[2]


def test_many_findings() -> None:
    """Of very many findings in a pool the first are told, and how many are left; --wide tells all."""
    leaks = {f"10.0.0.{number}": claim(f"app-{number}") for number in range(10, 60)}
    seen = audit(pool("big", "10.0.0.10-10.0.0.90", leaks))
    assert "25 more findings in big (--wide shows them)" in text(seen.tables())
    assert sum("OwnerGone" in line for line in seen.wide()) == 50


def test_the_same_of_several_addresses() -> None:
    """What is found of several addresses of one owner is said once, with their range."""
    seen = of_files(ROOT / "examples" / "surplus").tables()
    assert sum("SurplusForOwner" in line for line in seen) == 1
    told = text(seen)
    assert "10.60.0.12- Leaked · SurplusForOwner default/noname-0 10.60.0.16" in told
    assert "The same of 4 more addresses." in told


def test_long_names_stay_whole() -> None:
    """The name of a pool is never broken: its numbers stand under it, where there is no room beside."""
    name = "a-pool-with-a-name-that-is-long-and-has-no-end-in-sight"
    lines = [line.rstrip() for line in audit(pool(name, "10.0.0.10-10.0.0.30")).tables()]
    at = lines.index(f"  {name}")
    assert lines[at + 1].split() == ["21", "-", "-", "-", "21", "0%", "-", "-", "-", "-"]
    assert max(map(len, lines)) <= WIDTH


def test_long_addresses() -> None:
    """A long IPv6 address stands above what is said of it, unbroken."""
    address = "fd00:1234:5678:9abc:1234:5678:9abc:def0"
    lines = audit(pool("six", "fd00:1234::-fd00:1234:ffff::", {address: claim("app")})).tables()
    assert f"  {address}" in [line.rstrip() for line in lines]
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize(
    ("size", "short"), [("10.0.0.0-10.255.255.255", "16.8M"), ("fd00::-fd00::ffff:ffff:ffff:ffff", "1.8e19")]
)
def test_long_numbers(size: str, short: str) -> None:
    """What is too long for 80 columns is rounded; --wide is exact."""
    seen = audit(pool("huge", size))
    assert below(seen.tables(), "huge").split()[1] == short
    assert str(seen.report["pools"][0]["size"]) in seen.wide()[1]


def test_full_is_only_what_is_full() -> None:
    """A pool is never 0 % or 100 % full by rounding."""
    most = {f"10.0.{number // 256}.{number % 256}": claim(f"app-{number}") for number in range(1023)}
    nearly = audit(pool("most", "10.0.0.0-10.0.3.255", most))
    barely = audit(pool("barely", "10.0.0.0-10.0.3.255", {"10.0.0.0": claim("app")}))
    assert "99%" in below(nearly.tables(), "most")
    assert "<1%" in below(barely.tables(), "barely")


def test_pools_of_one_name() -> None:
    """Pools of one name in two namespaces are told with their namespaces."""
    lines = of_files(ROOT / "tests" / "threads" / "neon-1405-two-ranges").tables()
    assert below(lines, "neonvm-10.100.0.0-24")
    twice = _two_namespaces()
    assert {"here/p", "there/p"} <= {
        line.split()[0] for line in twice.tables() if line.startswith("  ") and line.split()
    }


def _two_namespaces() -> Audit:
    """Two pools of one name, as whereabouts has them in two namespaces."""
    pools: list[Object] = [
        {
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
            "kind": "IPPool",
            "metadata": {"name": "p", "namespace": space, "uid": space, "resourceVersion": "1"},
            "spec": {"range": f"10.{number}.0.0/24", "allocations": {}},
        }
        for number, space in enumerate(("here", "there"), 1)
    ]
    return audit(*pools)


def test_names_cannot_command_the_terminal() -> None:
    """A record's text is anybody's: what would move the cursor or colour the screen is not passed on."""
    seen = audit(blue({A: claim("default/\x1b[31mred", "x\x1b[2Jy")}))
    assert "\x1b" not in "".join([*seen.tables(), *seen.wide(), *seen.maps()])
    assert "[bold]" in text(audit(blue({A: claim("default/[bold]")})).tables())


# --- wide and map -----------------------------------------------------------------------------------------------------


def test_wide() -> None:
    """One line to a finding, with all that the tables leave out."""
    gone = endpoint("app", {"eth0": f"{A}@blue"}, node="node-1")
    lines = audit(*LEAKING, gone).wide()
    row = below(lines, "spiderpool  blue  10.0.0.10  Leaked")
    for part in ("OwnerGone", "release", "Pod default/app", "app-uid", "node-1", "no pod of that UID exists"):
        assert part in row
    assert below(lines, "IPAM        POOL  ADDRESS").split()[-1] == "MESSAGE"
    assert [line for line in lines if line != line.rstrip()] == []


def test_map() -> None:
    """The letters of a pool's addresses under their offsets, and a legend of those that occur."""
    lines = audit(*LEAKING).maps()
    assert lines == [
        "spiderpool blue  21 = 2 allocated + 19 free",
        "         +0      +8      +16     +24     +32     +40     +48     +56",
        "10.0.0.0           La...................",
        "",
        ". free   a allocated   L leaked",
    ]


def test_map_of_a_huge_pool() -> None:
    """A /64 takes a few lines, in rows of 32 where its addresses are long, with hexadecimal offsets."""
    lines = audit(
        pool(
            "six",
            "fd00:1234:5678:9abc::-fd00:1234:5678:9abc:ffff:ffff:ffff:ffff",
            {"fd00:1234:5678:9abc:1234:5678:9abc:def0": claim("app")},
        )
    ).maps()
    assert lines[1].split() == ["+0", "+8", "+10", "+18"]
    assert lines[3].split() == ["fd00:1234:5678:9abc:1234:5678:9abc:dee0", "." * 16 + "L" + "." * 15]
    assert "… 17134975606245761280 free …" in lines[4]
    assert max(map(len, lines)) <= WIDTH


def test_map_of_what_cannot_be_drawn() -> None:
    """Unreadable records, no addresses, and records outside the ranges are said in words."""
    unreadable = text(audit(blue("{")).maps())
    assert "its records cannot be read" in unreadable
    outside = text(audit(blue({"10.0.5.5": claim("app")})).maps())
    assert "1 recorded address outside its ranges" in outside
    assert "no address to hand out" in text(audit(pool("none", "10.0.0.10", exclude=["10.0.0.10"])).maps())


# --- the program ------------------------------------------------------------------------------------------------------


def on_terminal(*arguments: str, out: bool = True, **environment: str) -> str:
    """What the program writes to a terminal of 80 columns; `out` tells whether its output is one, too, or is thrown away."""
    ours, theirs = pty.openpty()
    settings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), **environment}
    for name in {"NO_COLOR", "FORCE_COLOR"} - set(environment):
        settings.pop(name, None)
    command = [sys.executable, "-m", "poolwarden", *arguments]
    with subprocess.Popen(
        command, stdout=theirs if out else subprocess.DEVNULL, stderr=theirs, stdin=theirs, env=settings
    ) as running:
        os.close(theirs)
        told = b"".join(_read(ours))
        running.wait()
    os.close(ours)
    return told.decode().replace("\r\n", "\n")


def _read(terminal_end: int) -> Iterator[bytes]:
    """What comes until the other end is closed."""
    while True:
        try:
            part = os.read(terminal_end, 65536)
        except OSError:  # as Linux tells it
            return
        if not part:
            return
        yield part


SURPLUS = ("audit", "-f", str(ROOT / "examples" / "surplus"), "--assume-complete")


@pytest.mark.parametrize("look", [(), ("--wide",), ("--map",)])
def test_colours_on_a_terminal(look: tuple[str, ...]) -> None:
    """A terminal gets colours, unless NO_COLOR is set; the words are the same."""
    coloured = on_terminal(*SURPLUS, *look)
    plain = on_terminal(*SURPLUS, *look, NO_COLOR="1")
    assert COLOUR.search(coloured)
    assert not COLOUR.search(plain)
    assert CODE.sub("", coloured) == CODE.sub("", plain)


@pytest.mark.parametrize("look", [(), ("--wide",), ("--map",), ("-o", "json"), ("-o", "yaml")])
def test_no_codes_elsewhere(look: tuple[str, ...]) -> None:
    """What is piped has no codes, even where FORCE_COLOR asks for them, and nothing of progress."""
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(
        [sys.executable, "-m", "poolwarden", *SURPLUS, *look],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""
    assert done.stdout


def test_json_on_a_terminal() -> None:
    """JSON is the same on a terminal: no codes."""
    assert "\x1b" not in on_terminal(*SURPLUS, "-o", "json")


def test_no_progress_offline() -> None:
    """A dump that is read within a second shows none."""
    assert "reading" not in on_terminal(*SURPLUS)
