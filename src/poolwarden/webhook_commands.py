"""`poolwarden webhook`: knowledge, rules, server and certificates put together."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Event

import structlog

from poolwarden.cert_commands import settings_of
from poolwarden.certs.renewal import Renewal, Status
from poolwarden.cli import COULD_NOT
from poolwarden.cluster.api_server import Opener, Unreached
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.review_commands import rule_settings
from poolwarden.webhook.answer import Answer
from poolwarden.webhook.cache import Cache
from poolwarden.webhook.review import Request
from poolwarden.webhook.rules import RULES, Rule
from poolwarden.webhook.server.config import Application, ServerConfig
from poolwarden.webhook.server.metrics import Metrics
from poolwarden.webhook.server.run import serve
from poolwarden.webhook.settings import RuleSettings

log = structlog.get_logger()

OK = 0
FIRST_LISTS = 20.0
"""Seconds to wait, not ready, for the first lists: after that a webhook that only warns is better than none."""


def run(options: argparse.Namespace, opener: Opener, namespace: str) -> int:
    """Serve until SIGTERM. `opener` opens the cluster for the renewal of certificates; `namespace` is our own."""
    settings = settings_of(options, namespace)
    reached = opener(stop=Event()).reach()
    if isinstance(reached, Unreached):
        if reached.final:
            print(f"poolwarden: {reached.reason}", file=sys.stderr)
            return COULD_NOT
        log.warning("the API server does not answer; its answer is awaited", reason=reached.reason)
    config = ServerConfig(
        bind=options.bind,
        metrics_bind=options.metrics_bind,
        tls_cert=Path(options.tls_cert),
        tls_key=Path(options.tls_key),
    )
    rules = rule_settings(options)

    def make(metrics: Metrics) -> Application:
        transport = KubeTransport(kubeconfig=options.kubeconfig or "", context=options.context or "")
        return application(
            Cache(transport),
            rules,
            (Renewal(opener, settings, told=partial(_show_ends, metrics)),) if options.certificates == "own" else (),
        )

    return OK if serve(config, make) == OK else COULD_NOT


def application(cache: Cache, settings: RuleSettings, renewals: Sequence[Renewal]) -> Application:
    """What the server serves, with everything behind it begun. Waits for the first lists, but not for ever."""
    stop = Event()
    cache.start(stop)
    for renewal in renewals:
        renewal.start()

    def close() -> None:
        stop.set()
        for renewal in renewals:
            renewal.stop()

    cache.wait(FIRST_LISTS)
    answerers = {path: partial(_answer, rule, cache, settings) for path, rule in RULES.items()}
    return Application(answerers, notes={"knowledge": cache.problems}, close=close)


def _answer(rule: Rule, cache: Cache, settings: RuleSettings, request: Request) -> Answer:
    return rule(request, cache.knowledge(), settings)


def _show_ends(metrics: Metrics, status: Status) -> None:
    """The CA's end is known only while the certificates are kept here; that of the serving one the server shows itself."""
    if "ca" in status.not_after:
        metrics.certificate_ends("ca", status.not_after["ca"].timestamp())
    elif not status.leading:
        metrics.certificate_unknown("ca")
