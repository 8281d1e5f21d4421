"""What each command does: opens the cluster, calls the library, prints, and turns the outcome into an exit status."""

import argparse
import io
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any, TextIO

import msgspec

from poolwarden.cli import COULD_NOT
from poolwarden.cluster.api_server import ApiServer, OnPage, Opener, Unreached, unheard
from poolwarden.cluster.exchange import Limits
from poolwarden.cluster.files import Files
from poolwarden.cluster.guard import Guard, always_allowed
from poolwarden.cluster.inputs import read
from poolwarden.cluster.interface import Cluster
from poolwarden.cluster.lease import HeldBy, Unclear
from poolwarden.cluster.outputs import STANDARD_OUTPUT, Saved, Unsaved
from poolwarden.cluster.pacing import Stop
from poolwarden.gc.by_hand import CouldNot, Did, Proposal, Refused, propose, release_by_hand, restore_by_hand
from poolwarden.gc.examine import Judged, examine, kept_ledgers, pool_reports, pools_of
from poolwarden.gc.explain import explain
from poolwarden.gc.pacing import BackoffError, Backoffs, overridden
from poolwarden.gc.policy import Ceiling, Policy
from poolwarden.gc.report import audit_report, audit_table, reported, sweep_lines
from poolwarden.gc.sweep import NO_PODS, Settings, Sweep, SweepReport
from poolwarden.ipam.pool_guard import POOL_GUARDS
from poolwarden.ipam.registry import BACKENDS
from poolwarden.logs import configure
from poolwarden.plain import printable, say
from poolwarden.progress import Progress

OK, FOUND, REFUSED = 0, 1, 1
CRON_JITTER = 10
"""Seconds: clusters of one fleet should not all sweep in the same second."""
SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def run(options: argparse.Namespace) -> int:
    """Run the parsed command. No exception leaves it: an error of ours is one line, and exit status 2."""
    configure(verbose=options.verbose)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    kubeconfig = getattr(options, "kubeconfig", "")
    missing = kubeconfig and not getattr(options, "file", ()) and not Path(kubeconfig).exists()
    if missing:
        return _fail(f"--kubeconfig: {kubeconfig}: no such file")
    unknown = [name for name in getattr(options, "ipam", ()) if name not in BACKENDS]
    if unknown:
        return _fail(f"--ipam: {unknown[0]!r} is no IPAM that poolwarden knows; allowed: {', '.join(BACKENDS)}")
    commands: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "audit": _audit,
        "gc": _gc,
        "explain": _explain,
        "release": _release,
        "restore": _restore,
        "review": _review,
        "certs": _certs,
        "webhook": _webhook,
    }
    try:
        return commands[options.command](options)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has left; Python would say so a second time
        return COULD_NOT
    except KeyboardInterrupt:
        return _fail("interrupted")
    except Exception as error:
        if options.verbose:
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return _fail(
            f"defect of poolwarden at {place}: {type(error).__name__}: {error}; -v shows more, please report it"
        )


# --- the commands -----------------------------------------------------------------------------------------------------


def _audit(options: argparse.Namespace) -> int:
    with _progress(options) as progress:
        cluster = _open(options, progress.page)
        if isinstance(cluster, Unreached):
            return _fail(f"cannot reach the API server: {cluster.reason}")
        judged = examine(cluster, Policy(grace=options.grace, node_gone_grace=0), options.ipam)
    problems = _problems(cluster, judged.problems)
    pools = [
        report
        for report in pool_reports(judged, kept_ledgers(judged))
        if not options.pool or report.pool.ref.spellings & set(options.pool)
    ]
    problems += _unknown_pools(judged, options.pool)
    report = audit_report(judged, pools, complete=not problems)
    if options.pool:
        wanted = {(found.pool.ref.ipam, found.pool.ref.namespace or None, found.pool.ref.name) for found in pools}
        report["findings"] = [f for f in report["findings"] if (f["ipam"], f["poolNamespace"], f["pool"]) in wanted]
    _warn(problems)
    if options.output != "table" or not (options.wide or options.map or sys.stdout.isatty()):
        _print(report, options.output)
    elif options.map:
        _terminal().print_maps(sys.stdout, pools)
    elif options.wide:
        nodes = [f.node for f in reported(judged, pools) if not options.pool or f.pool.spellings & set(options.pool)]
        _terminal().print_wide(sys.stdout, report, nodes)
    else:
        _terminal().print_tables(sys.stdout, report)
    return COULD_NOT if problems else FOUND if report["findings"] else OK


def _explain(options: argparse.Namespace) -> int:
    with _progress(options) as progress:
        cluster = _open(options, progress.page)
        if isinstance(cluster, Unreached):
            return _fail(f"cannot reach the API server: {cluster.reason}")
        judged = examine(cluster, Policy(node_gone_grace=0))
    story, reported = explain(judged, options.address, options.pool)
    problems = [*_problems(cluster, judged.problems), *_unknown_pools(judged, options.pool)]
    _warn(problems)
    say(story, sys.stdout)
    return COULD_NOT if problems else FOUND if reported else OK


def _gc(options: argparse.Namespace) -> int:
    backoffs = Backoffs()
    try:
        for text in options.backoff:
            backoffs = overridden(backoffs, text)
    except BackoffError as error:
        return _fail(f"--backoff: {error}")
    settings = Settings(
        ceiling=Ceiling(options.mode),
        default=Policy(grace=options.grace, cooldown=options.cooldown),
        max_releases=options.max_releases,
        ipams=tuple(options.ipam),
        backoffs=backoffs,
    )
    if options.file:
        return _gc_files(options, settings)
    return _gc_cluster(options, settings)


def _gc_cluster(options: argparse.Namespace, settings: Settings) -> int:
    from poolwarden.gc.metrics_server import Unbound  # noqa: PLC0415 - only gc in a cluster needs these
    from poolwarden.gc.schedule import Gc, LeaseSettings, due_after, on_schedule  # noqa: PLC0415

    lease_namespace = options.lease_namespace or _own_namespace("kube-system")
    lease = LeaseSettings(lease_namespace, options.lease_name, options.lease_duration)
    progress = _progress(options)  # a daemon never enters it: its log tells what it does
    gc = Gc(_opener(options, progress.page), settings, lease, progress.step)
    if options.once:
        configure(verbose=options.verbose, summary_follows=True)
        reached = _opener(options)(stop=Event()).reach()
        if isinstance(reached, Unreached):
            return _fail(f"cannot reach the API server: {reached.reason}")
        gc.listen()
        with progress:
            swept = gc.once()
        match swept:
            case SweepReport() as report:
                _warn(list(report.problems))
                return print_sweep(report, settings, sys.stdout)
            case HeldBy(holder):
                print(f"{holder} holds lease {lease.namespace}/{lease.name} and sweeps: nothing to do here")
                return OK
            case Unclear(reason):
                return _fail(f"lease {lease.namespace}/{lease.name}: {reason}")
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415 - only the daemon needs it
    from apscheduler.triggers.interval import IntervalTrigger  # noqa: PLC0415

    if options.cron:
        try:
            trigger, interval = CronTrigger.from_crontab(options.cron, timezone=UTC), None
            trigger.jitter = CRON_JITTER
        except ValueError as error:
            return _fail(f"--cron: {options.cron!r} is no schedule of five fields: {error}")
    else:
        jitter = options.interval // 10 or None
        trigger, interval = IntervalTrigger(seconds=options.interval, jitter=jitter, timezone=UTC), options.interval
    gc.listen()
    served = gc.serve(options.metrics_bind, partial(due_after, trigger))
    if isinstance(served, Unbound):
        return _fail(f"--metrics-bind: {served.reason}")
    gc.forever(on_schedule(trigger, interval=interval))
    return OK


def _own_namespace(outside: str) -> str:
    """The namespace of our own pod; `outside` a cluster."""
    try:
        return SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        return outside


def _gc_files(options: argparse.Namespace, settings: Settings) -> int:
    configure(verbose=options.verbose, summary_follows=True)
    cluster = _open_files(options)
    with _progress(options) as progress:
        report = Sweep(cluster, settings, Event().wait, on_step=progress.step).run()
    problems = _problems(cluster, report.problems)
    if cluster.problems:  # that no pod was read needs no further explanation then
        problems = [problem for problem in problems if problem != NO_PODS]
    # With the objects on standard output, what is said for people goes beside it.
    out = sys.stderr if options.write == STANDARD_OUTPUT else sys.stdout
    return _finish(options, cluster, problems, print_sweep(report, settings, out))


def print_sweep(report: SweepReport, settings: Settings, out: TextIO) -> int:
    """Print a sweep; its exit status."""
    say(sweep_lines(report, may_release=settings.ceiling is not Ceiling.OBSERVE), out)
    return OK if report.complete else COULD_NOT


def _release(options: argparse.Namespace) -> int:
    cluster = _open(options)
    if isinstance(cluster, Unreached):
        return _fail(f"cannot reach the API server: {cluster.reason}")
    default = Policy()
    proposal = propose(cluster, default, options.address, options.pool, options.record)
    if not isinstance(proposal, Proposal):
        return _outcome(proposal)
    say([proposal.finding.message], sys.stderr)
    if not options.yes and not sys.stdin.isatty():
        return _fail("there is nobody to ask; say --yes")
    if not options.yes and not _confirmed(f"Release {options.address} from {options.pool}?"):
        print("not released", file=sys.stderr)
        return REFUSED
    return _did(options, cluster, release_by_hand(cluster, default, proposal, Event().wait))


def _restore(options: argparse.Namespace) -> int:
    cluster = _open(options)
    if isinstance(cluster, Unreached):
        return _fail(f"cannot reach the API server: {cluster.reason}")
    return _did(options, cluster, restore_by_hand(cluster, Policy(), options.address, options.pool, Event().wait))


def _review(options: argparse.Namespace) -> int:
    from poolwarden.review_commands import run_review  # noqa: PLC0415 - the rules are needed nowhere else

    return run_review(options)


def _did(options: argparse.Namespace, cluster: Files | ApiServer, outcome: Did | Refused | CouldNot) -> int:
    """Say what was done by hand, here and as Events on the pool; over files, write it down."""
    status = _outcome(outcome)
    if not isinstance(outcome, Did):
        return status
    if isinstance(cluster, Files):
        return _finish(options, cluster, [], status)
    from poolwarden.gc.tell import tell  # noqa: PLC0415 - only a cluster has Events

    _warn(list(tell(cluster, outcome.notices, instance="poolwarden-cli")))
    return status


def _webhook(options: argparse.Namespace) -> int:
    from poolwarden import webhook_commands  # noqa: PLC0415 - the server is needed nowhere else

    return webhook_commands.run(options, _opener(options), _own_namespace("poolwarden"))


def _certs(options: argparse.Namespace) -> int:
    from poolwarden import cert_commands  # noqa: PLC0415 - cryptography is for the webhook alone

    configure(verbose=options.verbose, summary_follows=True)
    cluster = _open(options)
    if isinstance(cluster, Unreached):
        return _fail(f"cannot reach the API server: {cluster.reason}")
    return cert_commands.run(options, cluster, _own_namespace("poolwarden"))


def _unknown_pools(judged: Judged, names: list[str]) -> list[str]:
    refs = [pool.ref for pool in pools_of(judged.snapshot)]
    known = frozenset[str]().union(*(ref.spellings for ref in refs))
    shown = sorted({f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name for ref in refs})
    there = f"there are: {', '.join(shown)}" if refs else "none was read"
    return [f"--pool: there is no pool {name!r}; {there}" for name in names if name not in known]


# --- where the objects are --------------------------------------------------------------------------------------------


def _open(options: argparse.Namespace, on_page: OnPage = unheard) -> Files | ApiServer | Unreached:
    if options.file:
        return _open_files(options)
    cluster = _opener(options, on_page)(stop=Event())
    reached = cluster.reach()
    return reached if isinstance(reached, Unreached) else cluster


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


def _opener(options: argparse.Namespace, on_page: OnPage = unheard) -> Opener:
    def opened(*, stop: Stop, guard: Guard | None = None, limits: Limits | None = None) -> ApiServer:
        from poolwarden.cluster.kube_transport import KubeTransport  # noqa: PLC0415 - imports kubernetes, takes 0.3 s

        chosen = limits or Limits(
            qps=options.qps, burst=max(1, int(options.qps * 2)), read_timeout=float(options.timeout)
        )
        transport = KubeTransport(kubeconfig=options.kubeconfig or "", context=options.context or "")
        return ApiServer(transport, limits=chosen, guard=guard or always_allowed, stop=stop, on_page=on_page)

    return opened


def _problems(cluster: Cluster, found: Iterable[str]) -> list[str]:
    """What is wrong with the inputs, then what is wrong for any other cause."""
    inputs = cluster.problems if isinstance(cluster, Files) else ()
    return [*inputs, *(problem for problem in found if not any(fault in problem for fault in inputs))]


def _progress(options: argparse.Namespace) -> Progress:
    """Shown to somebody who watches: on a terminal whose output goes nowhere else, and without logs between."""
    return Progress(sys.stderr, shown=sys.stderr.isatty() and sys.stdout.isatty() and not options.verbose)


# --- what is printed --------------------------------------------------------------------------------------------------


def _print(report: dict[str, Any], output: str) -> None:
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    elif output == "yaml":
        from poolwarden.cluster.yaml_text import dump  # noqa: PLC0415 - PyYAML is slow to import

        print(dump(report), end="")
    else:
        print(audit_table(printable(report)))


def _terminal() -> ModuleType:
    """What prints for people on a terminal; imported only for them, since neither files nor pipes need rich."""
    from poolwarden import terminal  # noqa: PLC0415

    return terminal


def _finish(options: argparse.Namespace, cluster: Cluster, problems: list[str], status: int) -> int:
    """Write the resulting objects, say what was wrong, and settle the exit status."""
    if isinstance(cluster, Files) and not options.write:
        print("poolwarden: files were not changed; --write OUT would write the result", file=sys.stderr)
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
            say([message], sys.stdout)
            return OK
        case Refused(guard, message):
            say([f"refused ({guard}): {message}"], sys.stderr)
            return REFUSED
        case CouldNot(message):
            return _fail(message)


def _confirmed(question: str) -> bool:
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _warn(problems: list[str]) -> None:
    say((f"poolwarden: {problem}" for problem in problems), sys.stderr)


def _fail(message: str) -> int:
    _warn([message])
    return COULD_NOT
