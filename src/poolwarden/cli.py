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
HIGHEST_PORT = 65_535
LONGEST_LIFE = 36500
DNS_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")
DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")

EPILOG = """exit status: audit, explain: 0 nothing to report, 1 findings, 2 could not check.
review: 0 allowed, 1 denied, 2 could not check.
gc: 0 the sweep completed, 2 a part of it could not be done.
release, restore: 0 done, 1 refused, 2 could not.
webhook: 0 stopped by a signal, 2 could not start.
certs ensure, rotate: 0 done or begun, 2 could not; show: 0 in order, 1 something to do, 2 could not."""


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


def endpoint(text: str) -> str:
    """HOST:PORT, an IPv6 address in brackets."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if (
        not host
        or (":" in host and not bracketed)
        or not (port.isascii() and port.isdigit() and int(port) <= HIGHEST_PORT)
    ):
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT; allowed are forms like 0.0.0.0:8443 and [::]:8443")
    return text


def count(text: str) -> int:
    """A whole number from 0 on."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no count; allowed are whole numbers from 0 on")
    return int(text)


def dns_name(text: str) -> str:
    """A DNS name in lower case, or an IP address."""
    if not DNS_NAME.fullmatch(text) and ":" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} is no DNS name in lower case, nor an IP address")
    return text if ":" not in text else address(text)


def days(text: str) -> int:
    """A life in days."""
    number = count(text)
    if not 1 <= number <= LONGEST_LIFE:
        raise argparse.ArgumentTypeError(f"{text!r} is no life in days; allowed are 1 to {LONGEST_LIFE}")
    return number


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
    _review(commands.add_parser("review", help="what the webhook would make of an object", allow_abbrev=False))
    _webhook(commands.add_parser("webhook", help="serve the admission webhook", allow_abbrev=False))
    _certs(commands.add_parser("certs", help="the webhook's certificates", allow_abbrev=False))
    return top


def _audit(command: argparse.ArgumentParser) -> None:
    _sources(command, several=True)
    command.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table", help="default: table")
    look = command.add_mutually_exclusive_group()
    look.add_argument("--wide", action="store_true", help="everything, one line to a pool and to a finding")
    look.add_argument("--map", action="store_true", help="each pool's addresses instead, a letter for each")
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
        "--backoff",
        action="append",
        default=[],
        metavar="KEY:FIELD=N,...",
        help="how tries are paced; keys write, verify; fields initialDelay, duration, factor, jitter, steps, cap (seconds)",
    )
    command.add_argument(
        "--write", metavar="OUT", help="with -f: write the resulting objects there (- for standard output)"
    )
    command.add_argument(
        "--metrics-bind",
        type=endpoint,
        default="0.0.0.0:8080",
        metavar="HOST:PORT",
        help="a daemon's metrics and probes, in the clear; port 0 is any (default: 0.0.0.0:8080)",
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


def _review(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-f",
        "--file",
        action="extend",
        nargs="+",
        required=True,
        metavar="FILE",
        help="the object (- for standard input); then files or folders of the cluster's networks and pools",
    )
    command.add_argument(
        "--operation", choices=("CREATE", "UPDATE"), help="what is done to it (default: UPDATE with --old, else CREATE)"
    )
    command.add_argument("--old", metavar="FILE", help="the object as it was before an update")
    command.add_argument(
        "-o",
        "--output",
        choices=("yaml", "json", "patch"),
        default="yaml",
        help="yaml: the object as it would be stored, nothing if it is denied; json: the whole answer; "
        "patch: RFC 6902 (default: yaml)",
    )
    command.add_argument("--assume-complete", action="store_true", help="what was not given does not exist")
    _rules(command)
    command.add_argument("-v", "--verbose", action="store_true", help="log more, to standard error")


def _rules(command: argparse.ArgumentParser) -> None:
    """What no object of a cluster says, and the rules need to know."""
    rules = command.add_argument_group("what the rules should know of the cluster")
    rules.add_argument(
        "--default-network",
        choices=("unknown", "spiderpool", "other"),
        default="unknown",
        help="the IPAM of eth0 where a pod names no default network of its own (default: unknown)",
    )
    rules.add_argument(
        "--default-networks",
        type=count,
        default=0,
        metavar="N",
        help="how many defaultNetworks Multus is configured with; they take net1 to netN (default: 0)",
    )
    rules.add_argument(
        "--multus-system-namespace",
        action="append",
        metavar="NS",
        help="where Multus attaches none of them, its systemNamespaces; repeatable (default: kube-system)",
    )
    rules.add_argument(
        "--multus-namespace",
        default="kube-system",
        metavar="NS",
        help="where Multus looks for default networks (default: kube-system)",
    )
    rules.add_argument(
        "--lease-duration",
        type=positive_duration,
        default=15,
        metavar="DUR",
        help="of gc's lease; a shorter cooldown is warned about (default: 15s)",
    )


def _webhook(command: argparse.ArgumentParser) -> None:
    listens = command.add_argument_group("where it listens")
    listens.add_argument(
        "--bind",
        type=endpoint,
        default="0.0.0.0:8443",
        metavar="HOST:PORT",
        help="reviews, by TLS (default: 0.0.0.0:8443)",
    )
    listens.add_argument(
        "--metrics-bind",
        type=endpoint,
        default="0.0.0.0:8080",
        metavar="HOST:PORT",
        help="metrics and probes, in the clear (default: 0.0.0.0:8080)",
    )
    for name in ("cert", "key"):
        default = f"/etc/poolwarden/tls/tls.{'crt' if name == 'cert' else 'key'}"
        listens.add_argument(f"--tls-{name}", default=default, metavar="FILE", help=f"default: {default}")
    _rules(command)
    command.add_argument(
        "--certificates",
        choices=("own", "provided"),
        default="own",
        help="own: an elected replica makes, renews and publishes them; provided: somebody else does (default: own)",
    )
    _certificates(command)
    _api_server(command.add_argument_group("the cluster"))
    command.set_defaults(file=[], now=None, assume_complete=False)


def _certs(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    helps = {
        "ensure": "make, renew and publish what is due; several may run at once",
        "rotate": "begin to replace the CA, then the serving certificate",
        "show": "both certificates, and what would be done next",
    }
    for name, text in helps.items():
        action = actions.add_parser(name, help=text, allow_abbrev=False)
        if name == "show":
            action.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
        else:
            action.add_argument("--wait", action="store_true", help="until no rotation is under way (takes minutes)")
        _certificates(action)
        source = action.add_argument_group("where the objects are")
        _api_server(source)
        action.set_defaults(file=[], now=None, assume_complete=False)


def _certificates(command: argparse.ArgumentParser) -> None:
    """What the certificates are for; the webhook takes the same options."""
    made = command.add_argument_group("the certificates")
    made.add_argument(
        "--namespace", type=dns_name, metavar="NS", help="default: our own, or poolwarden outside a cluster"
    )
    named = (
        ("--service", "poolwarden-webhook"),
        ("--tls-secret", "poolwarden-webhook-tls"),
        ("--ca-secret", "poolwarden-webhook-ca"),
        ("--mutating-configuration", "poolwarden"),
        ("--validating-configuration", "poolwarden"),
    )
    for option, default in named:
        made.add_argument(option, type=dns_name, default=default, metavar="NAME", help=f"default: {default}")
    made.add_argument(
        "--dns-name",
        type=dns_name,
        action="append",
        default=[],
        metavar="NAME",
        help="one more name or IP address of the webhook; repeatable",
    )
    made.add_argument("--ca-days", type=days, default=365, metavar="N", help="life of a CA (default: 365)")
    made.add_argument(
        "--leaf-days", type=days, default=90, metavar="N", help="life of a serving certificate (default: 90)"
    )


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
    _api_server(source)


def _api_server(source: argparse._ArgumentGroup) -> None:
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
    if options.command == "audit" and options.output != "table" and (options.wide or options.map):
        parser().exit(COULD_NOT, "poolwarden: --wide and --map go with -o table\n")
    from poolwarden import commands  # noqa: PLC0415 - after parsing, so that --help stays instant

    return commands.run(options)


if __name__ == "__main__":
    sys.exit(main())
