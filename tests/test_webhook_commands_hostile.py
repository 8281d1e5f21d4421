"""What a replica of the webhook tells of the CA once it keeps the certificates no more."""

from __future__ import annotations

from datetime import UTC, datetime

from poolwarden.certs.renewal import Status
from poolwarden.webhook.server.metrics import Metrics
from poolwarden.webhook_commands import _show_ends


def test_who_lost_the_lease_tells_nothing_of_the_ca() -> None:
    """The rules take the latest end that any replica tells: an old one hides that the CA of now ends sooner."""
    metrics = Metrics()
    _show_ends(metrics, Status(leading=True, not_after={"ca": datetime(2030, 1, 1, tzinfo=UTC)}))
    assert 'certificate="ca"' in metrics.text().decode()
    _show_ends(metrics, Status(leading=False))
    assert 'certificate="ca"' not in metrics.text().decode()


def test_who_still_leads_keeps_telling_of_the_ca() -> None:
    """Its state could not be read in one pass; nobody else changes it, or tells of it."""
    metrics = Metrics()
    _show_ends(metrics, Status(leading=True, not_after={"ca": datetime(2030, 1, 1, tzinfo=UTC)}))
    _show_ends(metrics, Status(leading=True))
    assert 'certificate="ca"' in metrics.text().decode()
