"""Everything but reviews: probes, metrics, and a page for people. Served by Flask, in threads of its own."""

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus

import msgspec
from flask import Flask, Response, render_template_string
from werkzeug.exceptions import HTTPException

from poolwarden.webhook.server.lifecycle import Lifecycle
from poolwarden.webhook.server.metrics import TEXT, VERDICTS, Metrics

STATUS = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>poolwarden webhook</title>
<style>body{font-family:sans-serif;margin:2em}td,th{padding:.2em 1em .2em 0;text-align:left}</style>
<h1>poolwarden webhook: {{ "ready" if ready else "not ready" }}</h1>
<table>
{% for name, wrong in checks.items() %}<tr><th>{{ name }}</th><td>{{ wrong|join("; ") or "ok" }}</td></tr>
{% endfor %}<tr><th>certificate until</th><td>{{ not_after }}</td></tr>
</table>
<h2>Answers since the start</h2>
<table>
<tr><th>path</th>{% for verdict in verdicts %}<th>{{ verdict }}</th>{% endfor %}</tr>
{% for path in paths %}<tr><td>{{ path }}</td>
{%- for verdict in verdicts %}<td>{{ counts[path, verdict] }}</td>{% endfor %}</tr>
{% endfor %}</table>
"""


def pages(lifecycle: Lifecycle, metrics: Metrics, not_after: Callable[[], str]) -> Flask:
    """The pages beside the review paths."""
    app = Flask("poolwarden", static_folder=None)

    def healthz() -> Response:
        return Response("ok\n", mimetype="text/plain")

    def readyz() -> Response:
        report = lifecycle.report()
        lines = [*_lines(report.checks, "-"), *_lines(report.notes, "!")]
        status = HTTPStatus.OK if report.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(lines, status, mimetype="text/plain")

    def status() -> str:
        report, counts = lifecycle.report(), metrics.counts()
        return render_template_string(
            STATUS,
            ready=report.ready,
            checks={**report.checks, **report.notes},
            not_after=not_after(),
            verdicts=tuple(VERDICTS.values()),
            paths=sorted({path for path, _ in counts}),
            counts=counts,
        )

    app.add_url_rule("/healthz", view_func=healthz)
    app.add_url_rule("/readyz", view_func=readyz)
    app.add_url_rule("/", view_func=status)
    app.register_error_handler(HTTPException, _problem)
    return app


def plain_pages(lifecycle: Lifecycle, metrics: Metrics, not_after: Callable[[], str]) -> Flask:
    """The pages of the plain port: the same, so that a probe needs no certificate, and the metrics."""
    app = pages(lifecycle, metrics, not_after)

    def scrape() -> Response:
        return Response(metrics.text(), content_type=TEXT)

    app.add_url_rule("/metrics", view_func=scrape)
    return app


def _lines(checks: Mapping[str, tuple[str, ...]], mark: str) -> Iterator[str]:
    """A line for each check, marked where something is wrong."""
    for name, wrong in checks.items():
        yield f"[{mark if wrong else '+'}] {name}: {'; '.join(wrong) or 'ok'}\n"


def _problem(error: HTTPException) -> Response:
    """An error as JSON, in the form that reviews are refused in."""
    response = error.get_response()
    body = msgspec.json.encode({"error": error.name})
    headers = [(name, value) for name, value in response.headers if name.lower() == "allow"]
    return Response(body, response.status_code, headers, mimetype="application/json")
