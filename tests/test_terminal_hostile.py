"""Hostile text on a terminal: whoever writes an endpoint or a dump must not command the operator's terminal."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator

import pytest
import structlog
from rich.cells import cell_len

from factories import Object, blue, claim, endpoint, nad, node, pod, pool
from faults import World, sweep
from poolwarden import terminal
from poolwarden.gc.examine import examine, kept_ledgers, pool_reports
from poolwarden.gc.explain import explain
from poolwarden.gc.policy import Policy
from poolwarden.gc.report import audit_report, reported, sweep_lines
from poolwarden.logs import configure
from poolwarden.plain import say, wrapped

ESCAPE = "\x1b]0;owned\x07\x1b[2J\u202e"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
A = "10.0.0.10"
WIDTH = 80


def hostile(name: str = ESCAPE) -> World:
    """A leak whose every text is hostile."""
    leak = {"pod": f"default/{name}", "podUid": name, "interface": name}
    return World(
        pool(f"blue{name}", "10.0.0.10-10.0.0.30", {A: leak}),
        blue({A: claim("app")}),
        pod("live", ips=["10.0.0.11"], status=name),
        endpoint("app", {f"eth0{name}": f"{A}@blue"}, node=f"node{name}"),
        nad("eth0"),
        node(),
    )


def printed(world: World, how: str) -> str:
    """What is printed, without the colours of ours."""
    judged = examine(world, Policy(node_gone_grace=0))
    pools = pool_reports(judged, kept_ledgers(judged))
    report = audit_report(judged, pools, complete=not judged.problems)
    nodes = [finding.node for finding in reported(judged, pools)]
    out = io.StringIO()
    match how:
        case "tables":
            terminal.print_tables(out, report)
        case "wide":
            terminal.print_wide(out, report, nodes)
        case "map":
            terminal.print_maps(out, pools)
        case "explain":
            say(explain(judged, A, "")[0], out)
        case "sweep":
            say(sweep_lines(sweep(world), may_release=True), out)
    return out.getvalue()


@pytest.mark.parametrize("how", ["tables", "wide", "map", "explain", "sweep"])
def test_no_control_characters(how: str) -> None:
    """Not from a pool's name, nor a node, an interface, a UID, an owner or a status."""
    assert CONTROL.findall(printed(hostile(), how)) == []


def too_wide(lines: Iterable[str]) -> list[str]:
    """Lines that take more columns than the terminal has."""
    return [line for line in lines if cell_len(line) > WIDTH]


def test_wide_characters_are_wrapped_by_their_columns() -> None:
    """A CJK character takes two columns."""
    assert too_wide(wrapped("  " + "漢字 " * 60, WIDTH)) == []


def test_a_pool_of_wide_characters_fits() -> None:
    """Its name takes twice as many columns as it has characters."""
    world: list[Object] = [pool("漢字" * 14, "10.0.0.10-10.0.0.30", {A: claim("app")}), pod("live")]
    judged = examine(World(*world), Policy(node_gone_grace=0))
    pools = pool_reports(judged, kept_ledgers(judged))
    assert too_wide(line.plain for line in terminal.maps(pools, WIDTH)) == []


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal that logs go to."""
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    before = structlog.get_config()
    configure(verbose=False)
    yield out
    structlog.configure(**before)


def uncoloured(out: Terminal) -> str:
    """What was printed, without structlog's own colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


def test_no_control_characters_in_logs(logged: Terminal) -> None:
    """A record's owner and UID are logged as they are; structlog quotes only values with blanks in them."""
    hostile = ESCAPE.replace(" ", "")
    structlog.get_logger().error("release", owner=f"default/{hostile}", uid=hostile)
    left = uncoloured(logged)
    assert "owned" in left
    assert CONTROL.findall(left) == []


def test_a_traceback_in_logs_keeps_its_lines(logged: Terminal) -> None:
    """Of the exception's message nothing reaches the terminal that it would obey."""
    structlog.get_logger().error("sweep failed", exc_info=ValueError(f"one\n{ESCAPE}"))
    left = uncoloured(logged)
    assert CONTROL.findall(left) == []
    assert left.splitlines()[-2:] == ["ValueError: one", "�]0;owned��[2J�"]
