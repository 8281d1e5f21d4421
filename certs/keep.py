"""Brings the certificates into order, step by step: read, decide, write one thing, and read again."""

from collections.abc import Callable
from datetime import datetime

import msgspec
import structlog
from msgspec import Struct

from poolwarden.certs.decide import (
    AdoptCas,
    Blocked,
    CreateCa,
    DropOldCa,
    End,
    IntroduceCa,
    IssueLeaf,
    NoteReplaced,
    NoteSeen,
    Nothing,
    PublishBundle,
    Step,
    Wait,
    decide,
    rotation,
)
from poolwarden.certs.settings import Settings
from poolwarden.certs.state import Configuration, State, Unknown
from poolwarden.certs.store import perform, read_state
from poolwarden.cluster.interface import Absent, Cluster, Deleted, Failed, Outdated, Written
from poolwarden.cluster.pacing import backoff

log = structlog.get_logger()

_MOST_STEPS = 32
"""From nothing to the end it takes seven; more than these means that somebody undoes what we do."""
_MOST_CONFLICTS = 10
_BACKOFF = 0.05
"""Seconds: who was overtaken finds the work done as soon as the other's write is."""
_BACKOFF_CAP = 2.0
_LOOK_AGAIN = 60.0
"""Seconds between passes at the most: waits are measured by the API server's clock, which may be set meanwhile."""
_SOON = 0.1

Pause = Callable[[float], bool]


class Kept(Struct, frozen=True):
    """What one pass has done, how it ended, and what is stored then."""

    steps: tuple[Step, ...]
    end: End
    state: State
    at: datetime


def keep(cluster: Cluster, settings: Settings, pause: Pause, *, rotate: bool = False) -> Kept:
    """One pass: until nothing is left to do now. `pause` waits some seconds, and says whether to stop.

    With `rotate` a new CA is asked for: the pass begins a rotation, or joins the one that is under way.
    """
    refused: dict[str, str] = {}
    steps: list[Step] = []
    conflicts = 0
    while True:
        state = _without(read_state(cluster, settings), refused)
        now = cluster.now()
        asked = rotate and not any(isinstance(step, CreateCa | IntroduceCa) for step in steps)
        action = (rotation if asked else decide)(state, settings, now)
        if isinstance(action, Wait | Nothing | Blocked):
            return Kept(tuple(steps), action, state, now)
        if len(steps) >= _MOST_STEPS or conflicts >= _MOST_CONFLICTS:
            return Kept(tuple(steps), Blocked(f"others keep changing what we write; last: {action.reason}"), state, now)
        outcome = perform(cluster, settings, state, action, now)
        match outcome:
            case Written() | Deleted():
                log.info("certificates", step=type(action).__name__, reason=action.reason)
                steps.append(action)
            case Failed(uncertain=False):
                log.warning("certificates", step=type(action).__name__, reason=action.reason, failed=outcome.message)
                refused[_target(action)] = outcome.message
            case Outdated() | Absent() | Failed():
                conflicts += 1
                if pause(backoff(conflicts, base=_BACKOFF, cap=_BACKOFF_CAP)):
                    return Kept(tuple(steps), Blocked("stopping"), state, now)


def keep_to_the_end(cluster: Cluster, settings: Settings, pause: Pause, told: Callable[[Wait], None]) -> Kept:
    """Passes until no rotation is under way any more; `told` hears what is waited for."""
    before: tuple[Step, ...] = ()
    while True:
        kept = keep(cluster, settings, pause)
        steps = (*before, *kept.steps)
        if not isinstance(kept.end, Wait):
            return msgspec.structs.replace(kept, steps=steps)
        told(kept.end)
        before = steps
        # The clock may be set meanwhile: look again soon.
        if pause(min(_LOOK_AGAIN, max(_SOON, (kept.end.until - kept.at).total_seconds()))):
            return msgspec.structs.replace(kept, steps=steps, end=Blocked("stopping"))


def _target(step: Step) -> str:
    """Which object the step writes."""
    match step:
        case CreateCa() | IntroduceCa() | AdoptCas() | NoteSeen() | NoteReplaced() | DropOldCa():
            return "authority"
        case IssueLeaf():
            return "serving"
        case PublishBundle(where=where):
            return where.kind if isinstance(where, Configuration) else "serving"


def _without(state: State, refused: dict[str, str]) -> State:
    """The state in which what could not be written is not known, so that the rest goes on."""
    return State(
        Unknown(refused["authority"]) if "authority" in refused else state.authority,
        Unknown(refused["serving"]) if "serving" in refused else state.serving,
        tuple(
            Unknown(refused[one.kind]) if isinstance(one, Configuration) and one.kind in refused else one
            for one in state.configurations
        ),
    )
