"""When sweeps run: once, or on a schedule, and only while we lead.

Each term of leadership has a cluster of its own whose writes ask whether the term still lasts, so nothing that was read
in an earlier term can be written in this one.
"""

import signal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from threading import Thread
from typing import Any

import structlog
from msgspec import Struct

from poolwarden.cluster.api_server import ApiServer, Opener
from poolwarden.cluster.lease import Candidate, HeldBy, Leadership, Leading, NotReleased, Terms, Unclear
from poolwarden.cluster.pacing import Stop
from poolwarden.cluster.runtime import MACHINE, Runtime
from poolwarden.gc.conflicts import ConflictsTold
from poolwarden.gc.crd import Unready, ensure_definition
from poolwarden.gc.guard import Recollection
from poolwarden.gc.health import Due, Health
from poolwarden.gc.metrics import GcMetrics
from poolwarden.gc.metrics_server import Served, Unbound, metrics_page, probe_page, serve
from poolwarden.gc.notice import Notice, NoticeReason
from poolwarden.gc.release import Outcome
from poolwarden.gc.report import is_reported
from poolwarden.gc.sweep import OnStep, Settings, Sweep, SweepReport, unheard
from poolwarden.gc.tell import tell
from poolwarden.gc.timing import Step, StepOutcome
from poolwarden.ipam.pool import PoolRef

log = structlog.get_logger()

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class LeaseSettings(Struct, frozen=True):
    """Which lease makes us the leader. `duration` in seconds; the other times follow client-go's proportions."""

    namespace: str
    name: str
    duration: int

    @property
    def terms(self) -> Terms:
        """15 s, 10 s and 2 s, or in the same proportions."""
        return Terms(self.duration, self.duration * 2 / 3, self.duration * 2 / 15)


class Gc:
    """Sweeps under leadership, until told to stop."""

    def __init__(
        self,
        opener: Opener,
        settings: Settings,
        lease: LeaseSettings,
        on_step: OnStep = unheard,
        *,
        runtime: Runtime = MACHINE,
    ) -> None:
        self.opener = opener
        self.settings = settings
        self.lease = lease
        self.on_step = on_step
        self.runtime = runtime
        self.metrics = GcMetrics(runtime.monotonic)
        self.health = Health(runtime.utc_now)
        self.identity = runtime.identity()
        self.stop = runtime.event()
        self._over = runtime.event()
        self._remembered = Recollection()
        self._troubles: frozenset[tuple[PoolRef, NoticeReason, str]] = frozenset()

    def listen(self) -> None:
        """Stop on SIGTERM or SIGINT. Call it before any thread is started, so that none takes the signal."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        # A thread that waits for signals, not a handler: a handler may interrupt the very lock that it needs.
        Thread(target=self._end_on_signal, name="signals", daemon=True).start()

    def _end_on_signal(self) -> None:
        received = signal.sigwait(SIGNALS)
        log.info("stopping", signal=signal.Signals(received).name)
        self.end()

    def end(self) -> None:
        """Stop soon: reads end at once, a sweep ends between two pools."""
        self.stop.set()
        self._over.set()

    def serve(self, bind: str, due: Due) -> Served | Unbound:
        """Serve metrics and probes at HOST:PORT; `due` is what the schedule promises."""
        return serve(
            bind,
            {
                "/metrics": lambda: metrics_page(self.metrics.text()),
                "/healthz": lambda: probe_page(self.health.trouble(due)),
                "/readyz": lambda: probe_page(self.health.waiting),
            },
        )

    def once(self) -> SweepReport | HeldBy | Unclear:
        """One sweep, if nobody else leads."""
        self._over = self.runtime.event()
        candidate, leadership = self._stand()
        claim = leadership.try_acquire(self.stop)
        if not isinstance(claim, Leading):
            return claim
        try:
            return self._sweep(self._cluster(candidate))
        finally:
            self._resign(leadership)

    def forever(self, schedule: Callable[[Callable[[], None], Stop], None]) -> None:
        """Lead whenever we can, and let `schedule` call the sweep until the term is over (its second argument)."""
        log.info("starting", mode=self.settings.ceiling.value, identity=self.identity)
        if self.settings.default.cooldown < self.lease.duration:
            # A former leader may not know yet that it is none: an address must not be used again meanwhile.
            log.warning(
                "cooldown shorter than the lease", cooldown=self.settings.default.cooldown, lease=self.lease.duration
            )
        while not self.stop.is_set():
            self._over = self.runtime.event()
            candidate, leadership = self._stand()
            claim = leadership.acquire(self.stop, told=self._tell_waiting)
            if not isinstance(claim, Leading):
                continue
            log.info("leading", lease=f"{self.lease.namespace}/{self.lease.name}", identity=self.identity)
            cluster = self._cluster(candidate)
            over = self._over
            self._remembered = self._remembered.without_nodes()  # others led meanwhile
            if not self.stop.is_set():
                self.health.leads()
                schedule(partial(self._logged, cluster), over)
                self.health.stands_by()
                self.metrics.stands_by()
            self._resign(leadership)

    def _stand(self) -> tuple[Candidate, Leadership]:
        terms = self.lease.terms
        own = self.opener(stop=self.runtime.event(), limits=terms.limits)
        candidate = Candidate(
            own,
            namespace=self.lease.namespace,
            name=self.lease.name,
            identity=self.identity,
            terms=terms,
            runtime=self.runtime,
        )
        return candidate, Leadership(candidate, on_lost=self._lost, runtime=self.runtime)

    def _cluster(self, candidate: Candidate) -> ApiServer:
        return self.opener(stop=self._over, guard=candidate.guard)

    def _lost(self, reason: str) -> None:
        log.warning("leadership lost", reason=reason)
        self._over.set()

    @staticmethod
    def _resign(leadership: Leadership) -> None:
        outcome = leadership.release()
        if isinstance(outcome, NotReleased):
            log.info("lease not given back", reason=outcome.reason)

    @staticmethod
    def _tell_waiting(claim: HeldBy | Unclear) -> None:
        if isinstance(claim, HeldBy):
            log.info("waiting", holder=claim.holder)
        else:
            log.warning("waiting", reason=claim.reason)

    # --- sweeping -------------------------------------------------------------------------------------------------

    def _logged(self, cluster: ApiServer) -> None:
        try:
            report = self._sweep(cluster)
        except Exception:
            log.exception("sweep failed; this is a defect of poolwarden, the next sweep begins anew")
            self.metrics.crashed()
            return
        finally:
            self.health.swept()
        self.metrics.swept(report)
        for problem in report.problems:
            log.warning("problem", detail=problem)

    def _news(self, notices: Sequence[Notice]) -> list[Notice]:
        """Notices without those of a trouble that the sweep before told in the same words.

        Most troubles the guards remember, but only if they can be written. What was done is news each time.
        """
        before = self._troubles
        self._troubles = frozenset((n.pool, n.reason, n.note) for n in notices if n.reason.warns)
        return [n for n in notices if (n.pool, n.reason, n.note) not in before]

    def _sweep(self, cluster: ApiServer) -> SweepReport:
        began = self.runtime.monotonic()
        cluster.forget_discovery()
        ready = ensure_definition(cluster, self._over.wait, cluster.forget_discovery)
        told = ConflictsTold(cluster, self.metrics.conflicted)
        sweep = Sweep(told, self.settings, self._over.wait, self._remembered, self.on_step, self.metrics.timers)
        report = sweep.run()
        self._remembered = sweep.recollection
        problems = [ready.why] if isinstance(ready, Unready) else []
        with self.metrics.timers.step(Step.REPORT) as timer:
            untold = tell(cluster, self._news(report.notices), instance=self.identity)
            if untold:
                timer.finish(StepOutcome.FAILURE)
        problems += [*report.problems, *untold]
        report = report.with_problems(problems)
        log.info(
            "swept",
            seconds=round(self.runtime.monotonic() - began, 3),
            pools=len(report.pools),
            records=sum(bool(finding.record_digest) for finding in report.findings),
            findings=sum(map(is_reported, report.findings)),
            released=sum(result.outcome is Outcome.RELEASED for _, result in report.released),
            braked=len(report.braked),
            complete=report.complete,
        )
        return report


def due_after(trigger: Any, last: datetime, sweeps: int) -> datetime:
    """When so many sweeps after that time are due, by an APScheduler trigger; never, if it has no more of them."""
    for _ in range(sweeps):
        following: datetime | None = trigger.get_next_fire_time(last, last)
        if following is None:
            return datetime.max.replace(tzinfo=UTC)
        last = following
    return last


def on_schedule(trigger: Any, *, interval: int | None) -> Callable[[Callable[[], None], Stop], None]:
    """A schedule for `Gc.forever`, by an APScheduler trigger: at once, then without overlap, late runs joined into one.

    `interval` in seconds, where there is one: a sweep that takes more than half of it is warned about.
    """
    from apscheduler.executors.pool import ThreadPoolExecutor  # noqa: PLC0415 - only a daemon needs it
    from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415

    def run(sweep: Callable[[], None], over: Stop) -> None:
        def timed() -> None:
            if over.is_set():
                return
            began = datetime.now(UTC)
            sweep()
            took = (datetime.now(UTC) - began).total_seconds()
            if interval is not None and took > interval / 2:
                log.warning("sweep takes more than half of its interval", seconds=round(took, 1), interval=interval)

        scheduler = BackgroundScheduler(timezone=UTC, executors={"default": ThreadPoolExecutor(1)})
        scheduler.add_job(
            timed,
            trigger,
            id="sweep",
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,  # the default of one second would skip a run that a busy machine delays
            next_run_time=datetime.now(UTC),
        )
        scheduler.start()
        while not over.wait(3600.0):
            pass
        scheduler.shutdown(wait=True)

    return run
