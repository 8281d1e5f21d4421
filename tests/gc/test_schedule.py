"""What a daemon says when it starts."""

import pytest
from structlog.testing import capture_logs

from poolwarden.cluster.api_server import ApiServer
from poolwarden.gc.policy import Policy
from poolwarden.gc.schedule import Gc, LeaseSettings
from poolwarden.gc.sweep import Settings


def nobody(**_options: object) -> ApiServer:
    """No cluster: the daemon ends before it needs one."""
    raise AssertionError("no cluster was wanted")


@pytest.mark.parametrize(("cooldown", "warned"), [(14, True), (15, False), (60, False)])
def test_a_cooldown_shorter_than_the_lease(cooldown: int, warned: bool) -> None:  # noqa: FBT001 - a column of the table
    """A former leader may still hold an address for free that the new one releases: that is said."""
    gc = Gc(nobody, Settings(default=Policy(cooldown=cooldown)), LeaseSettings("poolwarden", "poolwarden-gc", 15))
    gc.end()
    with capture_logs() as said:
        gc.forever(lambda _sweep, _over: None)
    assert ("cooldown shorter than the lease" in [line["event"] for line in said]) is warned
