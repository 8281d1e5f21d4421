"""The command line: what can be said, and which command does it. Imports nothing heavy, so that `--help` is instant."""

import argparse
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NoReturn

COULD_NOT = 2
EARLIEST_YEAR = 1970
HIGHEST_RATE = 10_000
DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")

EPILOG = """exit status: audit, explain: 0 nothing to report, 1 findings, 2 could not check.
gc: 0 the sweep completed, 2 a part of it could not be done.
release, restore: 0 done, 1 refused, 2 could not."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(COULD_NOT, f"{self.prog}: {message}\n")


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version  # noqa: PLC0415 - takes a while, and nothing else needs it

        parser.exit(0, f"poolwarden {version('poolwarden')}\n")


def duration(text: str) -> int:
    """Seconds, from `90s`, `10m`, `1h30m`, or a bare number of seconds."""
    match = DURATION.fullmatch(text)
    bare = text.isascii() and text.isdigit()
    if not text or match is None or (not bare and text[-1].isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; allowed are forms like 90s, 10m, 1h30m, or seconds")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def positive_duration(text: str) -> int:
    """Like `duration`, but not zero."""
    seconds = duration(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no interval; it must be at least a second")
    return seconds


def moment(text: str) -> datetime:
    """An RFC 3339 time."""
    wrong = argparse.ArgumentTypeError(f"{text!r} is no RFC 3339 time; allowed is a form like 2026-01-10T12:00:00Z")
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None or "T" not in text.upper() or time.year < EARLIEST_YEAR:
            raise wrong
        return time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise wrong from None


def rate(text: str) -> float:
    """Requests a second."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= HIGHEST_RATE:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate; allowed are numbers above 0, up to {HIGHEST_RATE}")
    return number


def count(text: str) -> int:
    """A whole number from 0 on."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no count; allowed are whole numbers from 0 on")
    return int(text)


def address(text: str) -> str:
    """A canonical IP address."""
    from poolwarden.ipam.address import AddressError, canonical  # noqa: PLC0415 - only where an address is given

    try:
        return canonical(text)
    except AddressError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parser() -> argparse.ArgumentParser:
    """The whole grammar."""
    top = _Parser(
        prog="poolwarden",
        description="Finds addresses that leaked from Kubernetes IPAM pools, by the UIDs of live pods, and frees them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="say which version this is")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    _audit(commands.add_parser("audit", help="judge every record once; writes nothing", allow_abbrev=False))
    _gc(commands.add_parser("gc", help="sweep: observe, or release what is proven leaked", allow_abbrev=False))
    _explain(commands.add_parser("explain", help="the whole story of one address", allow_abbrev=False))
    _release(commands.add_parser("release", help="release one record by hand", allow_abbrev=False))
    _restore(commands.add_parser("restore", help="put a released record back", allow_abbrev=False))
    return top


def _audit(command: argparse.ArgumentParser) -> None:
    _sources(command, several=True)
    command.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table", help="default: table")
    command.add_argument("--grace", type=duration, default=600, metavar="DUR", help="as gc's (default: 10m)")
    command.add_argument("--ipam", action="append", default=[], metavar="NAME", help="only this IPAM; repeatable")
    command.add_argument("--pool", action="append", default=[], metavar="NAME", help="only this pool; repeatable")


def _gc(command: argparse.ArgumentParser) -> None:
    _sources(command, several=True)
    when = command.add_mutually_exclusive_group()
    when.add_argument("--once", action="store_true", help="one sweep, for a CronJob")
    when.add_argument(
        "--interval", type=positive_duration, default=300, metavar="DUR", help="between sweeps (default: 5m)"
    )
    when.add_argument("--cron", metavar="EXPR", help="five fields, UTC, instead of an interval")
    command.add_argument(
        "--mode",
        choices=("observe", "opt-in", "release"),
        default="observe",
        help="the most that gc does (default: observe)",
    )
    command.add_argument(
        "--grace", type=duration, default=600, metavar="DUR", help="between two sightings (default: 10m)"
    )
    command.add_argument("--cooldown", type=duration, default=60, metavar="DUR", help="before a release (default: 1m)")
    command.add_argument("--max-releases", type=count, default=50, metavar="N", help="per sweep, in all (default: 50)")
    command.add_argument("--ipam", action="append", default=[], metavar="NAME", help="only this IPAM; repeatable")
    command.add_argument(
        "--write", metavar="OUT", help="with -f: write the resulting objects there (- for standard output)"
    )
    lease = command.add_argument_group("leader election")
    lease.add_argument(
        "--lease-namespace", metavar="NS", help="default: our own namespace, or kube-system outside a cluster"
    )
    lease.add_argument("--lease-name", default="poolwarden-gc", metavar="NAME", help="default: poolwarden-gc")
    lease.add_argument("--lease-duration", type=positive_duration, default=15, metavar="DUR", help="default: 15s")


def _explain(command: argparse.ArgumentParser) -> None:
    command.add_argument("address", type=address, metavar="ADDRESS")
    _sources(command)
    command.add_argument("--pool", action="append", default=[], metavar="NAME", help="only this pool; repeatable")


def _release(command: argparse.ArgumentParser) -> None:
    command.add_argument("address", type=address, metavar="ADDRESS")
    command.add_argument("--pool", required=True, metavar="NAME")
    command.add_argument("--record", required=True, metavar="DIGEST", help="the record's digest, as explain shows it")
    command.add_argument("--yes", action="store_true", help="do not ask")
    _sources(command)
    command.add_argument("--write", metavar="OUT", help="with -f: write the resulting objects there")


def _restore(command: argparse.ArgumentParser) -> None:
    command.add_argument("address", type=address, metavar="ADDRESS")
    command.add_argument("--pool", required=True, metavar="NAME")
    _sources(command)
    command.add_argument("--write", metavar="OUT", help="with -f: write the resulting objects there")


def _sources(command: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Where the objects are. `several`: one -f takes several files (not where an address could be taken for one)."""
    source = command.add_argument_group("where the objects are")
    source.add_argument(
        "-f",
        "--file",
        action="extend",
        nargs="+" if several else 1,
        default=[],
        metavar="FILE",
        help="files or folders of `kubectl get -o yaml|json`, or -",
    )
    source.add_argument("--now", type=moment, metavar="RFC3339", help="with -f: the time to judge at (default: now)")
    source.add_argument("--assume-complete", action="store_true", help="with -f: what was not given does not exist")
    source.add_argument(
        "--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, ~/.kube/config, or the in-cluster account"
    )
    source.add_argument("--context", metavar="NAME", help="default: the current context")
    source.add_argument("--qps", type=rate, default=50.0, metavar="N", help="requests a second at most (default: 50)")
    source.add_argument(
        "--timeout", type=positive_duration, default=30, metavar="DUR", help="of one request (default: 30s)"
    )
    source.add_argument("-v", "--verbose", action="store_true", help="log more, to standard error")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    options = parser().parse_args(argv)
    if not options.file and (options.now or options.assume_complete or getattr(options, "write", None)):
        parser().exit(COULD_NOT, "poolwarden: --now, --assume-complete and --write go with -f\n")
    from poolwarden import commands  # noqa: PLC0415 - after parsing, so that --help stays instant

    return commands.run(options)


if __name__ == "__main__":
    sys.exit(main())
