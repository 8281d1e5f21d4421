"""Every test here runs for each IPAM, and most of them for both families."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from .house import HOUSES, House
from .stage import STAGES, Stage


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of sweeps log; only what they report and write is looked at."""
    with capture_logs():
        yield


@pytest.fixture(params=HOUSES, ids=str)
def house(request: pytest.FixtureRequest) -> House:
    """Each IPAM, with IPv4 and IPv6."""
    found: House = request.param
    return found


@pytest.fixture(params=STAGES, ids=str)
def stage(request: pytest.FixtureRequest) -> Stage:
    """Each IPAM before each of its sweeps that write."""
    found: Stage = request.param
    return found
