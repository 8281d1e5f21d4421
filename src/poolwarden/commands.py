"""What each command does: opens the cluster, calls the library, prints, and turns the outcome into an exit status."""

import argparse
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Event
from typing import Any

import msgspec

from poolwarden.cli import COULD_NOT
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.exchange import Limits
from poolwarden.cluster.files import Files, Saved, Unsaved
from poolwarden.cluster.inputs import read
from poolwarden.cluster.interface import Cluster
from poolwarden.gc.by_hand import CouldNot, Did, Proposal, Refused, propose, release_by_hand, restore_by_hand
from poolwarden.gc.examine import examine, kept_ledgers, pool_reports
from poolwarden.gc.explain import explain
from poolwarden.gc.guard import POOL_GUARDS
from poolwarden.gc.policy import Ceiling, Policy
from poolwarden.gc.report import audit_report, audit_table, sweep_text
from poolwarden.gc.sweep import Settings, Sweep, SweepReport
from poolwarden.ipam.registry import BACKENDS

OK, FOUND, REFUSED = 0, 1, 1


def run(options: argparse.Namespace) -> int:
    """Run the parsed command. No exception leaves it: an error of ours is one line, and exit status 2."""
    from poolwarden.logs import configure  # noqa: PLC0415 - configuring logs imports structlog's renderers

    configure(verbose=options.verbose)
    unknown = [name for name in getattr(options, "ipam", ()) if name not in BACKENDS]
    if unknown:
        return _fail(f"--ipam: {unknown[0]!r} is no IPAM that poolwarden knows; allowed: {', '.join(BACKENDS)}")
    commands: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "audit": _audit,
        "gc": _gc,
        "explain": _explain,
        "release": _release,
        "restore": _restore,
    }
    try:
        return commands[options.command](options)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has left; Python would say so a second time
        return COULD_NOT
    except KeyboardInterrupt:
        return _fail("interrupted")


# --- the commands -----------------------------------------------------------------------------------------------------


def _audit(options: argparse.Namespace) -> int:
    cluster = _open(options)
    judged = examine(cluster, Policy(grace=options.grace, node_gone_grace=0), options.ipam)
    problems = [*_input_problems(cluster), *judged.problems]
    pools = [
        report
        for report in pool_reports(judged, kept_ledgers(judged))
        if not options.pool or report.pool.ref.name in options.pool
    ]
    missing = set(options.pool) - {report.pool.ref.name for report in pools}
    problems += [f"--pool: there is no pool {name!r}" for name in sorted(missing)]
    report = audit_report(judged, pools, complete=not problems)
    if options.pool:
        report["findings"] = [finding for finding in report["findings"] if finding["pool"] in options.pool]
    _warn(problems)
    _print(report, options.output)
    return COULD_NOT if problems else FOUND if report["findings"] else OK


def _explain(options: argparse.Namespace) -> int:
    cluster = _open(options)
    judged = examine(cluster, Policy(node_gone_grace=0))
    story, reported = explain(judged, options.address, options.pool)
    problems = [*_input_problems(cluster), *judged.problems]
    _warn(problems)
    print(story)
    return COULD_NOT if problems else FOUND if reported else OK


def _gc(options: argparse.Namespace) -> int:
    settings = Settings(
        ceiling=Ceiling(options.mode),
        default=Policy(grace=options.grace, cooldown=options.cooldown),
        max_releases=options.max_releases,
        ipams=tuple(options.ipam),
    )
    if options.file:
        return _gc_files(options, settings)
    from poolwarden.daemon import run_daemon, run_once  # noqa: PLC0415 - APScheduler is for the daemon alone

    return run_once(options, settings) if options.once else run_daemon(options, settings)


def _gc_files(options: argparse.Namespace, settings: Settings) -> int:
    cluster = _open_files(options)
    report = Sweep(cluster, settings, Event().wait).run()
    return _finish(options, cluster, [*cluster.problems, *report.problems], print_sweep(report, settings))


def print_sweep(report: SweepReport, settings: Settings) -> int:
    """Print a sweep; its exit status."""
    print(sweep_text(report, may_release=settings.ceiling is not Ceiling.OBSERVE), file=sys.stdout)
    return OK if report.complete else COULD_NOT


def _release(options: argparse.Namespace) -> int:
    cluster = _open(options)
    default = Policy()
    proposal = propose(cluster, default, options.address, options.pool, options.record)
    if not isinstance(proposal, Proposal):
        return _outcome(proposal)
    print(proposal.finding.message, file=sys.stderr)
    if not options.yes and not _confirmed(f"Release {options.address} from {options.pool}?"):
        return _outcome(CouldNot("not confirmed; say --yes where nobody can be asked"))
    outcome = release_by_hand(cluster, default, proposal, Event().wait)
    return _finish(options, cluster, [], _outcome(outcome))


def _restore(options: argparse.Namespace) -> int:
    cluster = _open(options)
    outcome = restore_by_hand(cluster, Policy(), options.address, options.pool, Event().wait)
    return _finish(options, cluster, [], _outcome(outcome))


# --- where the objects are --------------------------------------------------------------------------------------------


def _open(options: argparse.Namespace) -> Cluster:
    return _open_files(options) if options.file else open_api_server(options)


def _open_files(options: argparse.Namespace) -> Files:
    at = options.now

    def clock() -> datetime:
        return at or datetime.now(UTC)

    kinds = {POOL_GUARDS, *(kind for backend in BACKENDS.values() for kind in backend.status_kinds)}
    return Files(
        read(options.file),
        clock=clock,
        assume_complete=options.assume_complete,
        status_subresources=frozenset((kind.group, kind.plural) for kind in kinds),
    )


def open_api_server(options: argparse.Namespace, **hooks: Any) -> ApiServer:
    """The cluster of a kubeconfig or of our own pod. `hooks` are `guard` and `stop` of `ApiServer`."""
    from poolwarden.cluster.kube_transport import KubeTransport  # noqa: PLC0415 - imports kubernetes, which takes 0.3 s

    limits = Limits(qps=options.qps, burst=max(1, int(options.qps * 2)), read_timeout=float(options.timeout))
    transport = KubeTransport(kubeconfig=options.kubeconfig or "", context=options.context or "")
    return ApiServer(transport, limits=limits, **hooks)


def _input_problems(cluster: Cluster) -> tuple[str, ...]:
    return cluster.problems if isinstance(cluster, Files) else ()


# --- what is printed --------------------------------------------------------------------------------------------------


def _print(report: dict[str, Any], output: str) -> None:
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    elif output == "yaml":
        from poolwarden.cluster.yaml_text import dump  # noqa: PLC0415 - PyYAML is slow to import

        print(dump(report), end="")
    else:
        print(audit_table(report))


def _finish(options: argparse.Namespace, cluster: Cluster, problems: list[str], status: int) -> int:
    """Write the resulting objects, say what was wrong, and settle the exit status."""
    if isinstance(cluster, Files) and options.write:
        match cluster.write(options.write):
            case Unsaved(message):
                problems = [*problems, message]
            case Saved():
                pass
    _warn(problems)
    return COULD_NOT if problems else status


def _outcome(outcome: Did | Refused | CouldNot) -> int:
    match outcome:
        case Did(message):
            print(message)
            return OK
        case Refused(guard, message):
            print(f"refused ({guard}): {message}", file=sys.stderr)
            return REFUSED
        case CouldNot(message):
            return _fail(message)


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _warn(problems: list[str]) -> None:
    for problem in problems:
        print(f"poolwarden: {problem}", file=sys.stderr)


def _fail(message: str) -> int:
    _warn([message])
    return COULD_NOT
