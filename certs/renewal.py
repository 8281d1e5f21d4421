"""Certificates kept in order in the background, by one elected replica of the webhook.

With `--certificates provided` it is not started: somebody else fills the Secret and the caBundles.
"""

import random
import secrets
import socket
from collections.abc import Callable, Mapping
from datetime import datetime
from threading import Event, Lock, Thread

import msgspec
import structlog
from msgspec import Struct

from poolwarden.certs.decide import Blocked, Wait
from poolwarden.certs.issue import Pair
from poolwarden.certs.keep import Kept, keep
from poolwarden.certs.settings import SERVICE, Settings
from poolwarden.certs.state import Authority, Serving, State
from poolwarden.cluster.api_server import ApiServer, Opener
from poolwarden.cluster.lease import Candidate, HeldBy, Leadership, Leading, NotReleased, Terms, Unclear

log = structlog.get_logger()

INTERVAL = 60.0
"""Seconds between passes: how long a caBundle that somebody reset stays so. Each pass is four reads."""
_JITTER = 0.1
_SHORTEST_PAUSE = 1.0


class Status(Struct, frozen=True):
    """What the renewal is at, for metrics and readiness.

    Attributes:
        leading: this replica keeps the certificates.
        outcome: how the last pass ended, or what is waited for, in words for people.
        ended_well: the last pass left nothing undone that it should have done.
        passes: since the start.
        failures: passes that ended in `Blocked` or by a defect, since the start.
        steps: what was done since the start, by the names of the steps.
        not_after: the ends of "ca" and "serving", as far as they are known here (while leading).
    """

    leading: bool = False
    outcome: str = "not begun"
    ended_well: bool = False
    passes: int = 0
    failures: int = 0
    steps: Mapping[str, int] = {}
    not_after: Mapping[str, datetime] = {}


class Renewal:
    """A thread that keeps the certificates while it leads. Nothing is ever raised out of it.

    `told` hears every new status, from that thread.
    """

    def __init__(
        self,
        opener: Opener,
        settings: Settings,
        *,
        lease: str = SERVICE,
        terms: Terms = Terms(),  # noqa: B008 - frozen
        interval: float = INTERVAL,
        told: Callable[[Status], None] = lambda _: None,
    ) -> None:
        self._opener = opener
        self._settings = settings
        self._lease = lease
        self._terms = terms
        self._interval = interval
        self._told = told
        self._identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self._stop = Event()
        self._over = Event()
        self._lock = Lock()
        self._status = Status()
        self._thread = Thread(target=self._run, name="certificates", daemon=True)

    @property
    def status(self) -> Status:
        """A consistent view of now."""
        with self._lock:
            return self._status

    def start(self) -> None:
        """Begin; after any fork."""
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """End soon, and give the lease back; waits that long for it."""
        self._stop.set()
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._term()
            except Exception as error:
                log.exception("certificates are not kept; this is a defect of poolwarden, a new attempt follows")
                self._failed(f"{type(error).__name__}: {error}")
                self._stop.wait(self._interval)

    def _term(self) -> None:
        """Wait for leadership, and lead until it is lost or we are stopped."""
        self._over = Event()
        own = self._opener(stop=Event(), limits=self._terms.limits)
        candidate = Candidate(
            own, namespace=self._settings.namespace, name=self._lease, identity=self._identity, terms=self._terms
        )
        leadership = Leadership(candidate, on_lost=self._lost)
        if not isinstance(leadership.acquire(self._stop, told=self._tell_waiting), Leading):
            return
        log.info("keeping certificates", lease=f"{self._settings.namespace}/{self._lease}", identity=self._identity)
        try:
            self._lead(self._opener(stop=self._over, guard=candidate.guard))
        finally:
            self._update(leading=False, not_after={})
            outcome = leadership.release()
            if isinstance(outcome, NotReleased):
                log.info("lease not given back", reason=outcome.reason)

    def _lead(self, cluster: ApiServer) -> None:
        while not (self._over.is_set() or self._stop.is_set()):
            kept = keep(cluster, self._settings, self._over.wait)
            if not self._over.is_set():  # else its end says no more than that
                self._record(kept)
            self._over.wait(self._pause(kept))

    def _pause(self, kept: Kept) -> float:
        """To the next pass: sooner where a rotation goes on, never by a timer of days, which a sleeping machine stops."""
        interval = self._interval * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - spreads load, hides nothing
        if not isinstance(kept.end, Wait):
            return interval
        return min(interval, max(_SHORTEST_PAUSE, (kept.end.until - kept.at).total_seconds()))

    # --- what is told -----------------------------------------------------------------------------------------------

    def _record(self, kept: Kept) -> None:
        before = self.status
        steps = dict(before.steps)
        for step in kept.steps:
            name = type(step).__name__
            steps[name] = steps.get(name, 0) + 1
        blocked = isinstance(kept.end, Blocked)
        if kept.end.reason != before.outcome:
            tell = log.warning if blocked else log.info
            tell("certificates", end=type(kept.end).__name__, reason=kept.end.reason)
        self._update(
            leading=True,
            outcome=kept.end.reason,
            ended_well=not blocked,
            passes=before.passes + 1,
            failures=before.failures + blocked,
            steps=steps,
            not_after=ends(kept.state),
        )

    def _failed(self, outcome: str) -> None:
        before = self.status
        self._update(outcome=outcome, ended_well=False, passes=before.passes + 1, failures=before.failures + 1)

    def _update(self, **changes: object) -> None:
        with self._lock:
            self._status = status = msgspec.structs.replace(self._status, **changes)
        try:
            self._told(status)
        except Exception:
            log.exception("status not passed on; this is a defect of poolwarden")

    def _lost(self, reason: str) -> None:
        log.warning("leadership lost", reason=reason)
        self._over.set()

    def _tell_waiting(self, claim: HeldBy | Unclear) -> None:
        outcome = f"{claim.holder} keeps the certificates" if isinstance(claim, HeldBy) else claim.reason
        tell = log.info if isinstance(claim, HeldBy) else log.warning
        tell("waiting", lease=self._lease, reason=outcome)
        self._update(leading=False, outcome=outcome, ended_well=isinstance(claim, HeldBy))


def ends(state: State) -> dict[str, datetime]:
    """When what is stored ends: "ca" the newest CA, "serving" the serving certificate."""
    found: dict[str, datetime] = {}
    if isinstance(state.authority, Authority) and isinstance(state.authority.newest, Pair):
        found["ca"] = state.authority.newest.certificate.not_valid_after_utc
    if isinstance(state.serving, Serving) and isinstance(state.serving.leaf, Pair):
        found["serving"] = state.serving.leaf.certificate.not_valid_after_utc
    return found
