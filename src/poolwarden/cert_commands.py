"""`poolwarden certs ensure|rotate|show`: the certificates by hand, or from a Job; a webhook replica does the same by itself.

No lease is needed: every write is conditional, so any number of these may run beside one another.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from threading import Event

import msgspec

from poolwarden.certs.decide import Blocked, Nothing, Wait, decide
from poolwarden.certs.keep import Kept, keep, keep_to_the_end
from poolwarden.certs.report import report, table
from poolwarden.certs.settings import Settings
from poolwarden.certs.store import read_state
from poolwarden.cli import COULD_NOT
from poolwarden.cluster.interface import Cluster

OK, TO_DO = 0, 1


def run(options: argparse.Namespace, cluster: Cluster, namespace: str) -> int:
    """One of the three; the exit status. `namespace` counts where none is given."""
    actions: Mapping[str, Callable[[argparse.Namespace, Cluster, Settings], int]] = {
        "ensure": _ensure,
        "rotate": _rotate,
        "show": _show,
    }
    return actions[options.action](options, cluster, settings_of(options, namespace))


def settings_of(options: argparse.Namespace, namespace: str) -> Settings:
    """What was said about certificates."""
    return Settings(
        namespace=options.namespace or namespace,
        service=options.service,
        tls_secret=options.tls_secret,
        ca_secret=options.ca_secret,
        mutating=options.mutating_configuration,
        validating=options.validating_configuration,
        extra_names=tuple(options.dns_name),
        ca_days=options.ca_days,
        leaf_days=options.leaf_days,
    )


def _ensure(options: argparse.Namespace, cluster: Cluster, settings: Settings) -> int:
    """Idempotent: brings everything into order that can be now, and to the end with --wait."""
    return _told(options, cluster, settings, keep(cluster, settings, Event().wait))


def _rotate(options: argparse.Namespace, cluster: Cluster, settings: Settings) -> int:
    """Begins with a new CA; the webhook's replica, or the next `ensure`, brings it to its end."""
    return _told(options, cluster, settings, keep(cluster, settings, Event().wait, rotate=True))


def _told(options: argparse.Namespace, cluster: Cluster, settings: Settings, kept: Kept) -> int:
    for step in kept.steps:
        print(f"{type(step).__name__}: {step.reason}")
    if isinstance(kept.end, Wait) and options.wait:
        later = keep_to_the_end(cluster, settings, Event().wait, _tell_wait)
        return _told(options, cluster, settings, later)
    match kept.end:
        case Nothing(reason=reason):
            print(reason)
        case Wait(reason=reason, until=until):
            print(f"{reason}: goes on at {until:%Y-%m-%dT%H:%M:%SZ}, by the webhook or by `poolwarden certs ensure`")
        case Blocked(reason=reason):
            print(f"poolwarden: {reason}", file=sys.stderr)
            return COULD_NOT
    return OK


def _tell_wait(wait: Wait) -> None:
    print(f"waiting until {wait.until:%Y-%m-%dT%H:%M:%SZ}: {wait.reason}", file=sys.stderr, flush=True)


def _show(options: argparse.Namespace, cluster: Cluster, settings: Settings) -> int:
    state = read_state(cluster, settings)
    now = cluster.now()
    action = decide(state, settings, now)
    told = report(state, action, settings, now)
    print(msgspec.json.format(msgspec.json.encode(told)).decode() if options.output == "json" else table(told))
    match action:
        case Blocked():
            return COULD_NOT
        case Nothing():
            return OK
        case _:
            return TO_DO
