"""Where the server stands between its start and its end, and whether it should be sent reviews."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from poolwarden.webhook.server.config import Application, Check


class Phase(StrEnum):
    """A server goes through these in order; one that is stopped early skips serving."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"


class Report(Struct, frozen=True):
    """Each check with what it finds wrong; `notes` hold nobody up."""

    checks: Mapping[str, tuple[str, ...]]
    notes: Mapping[str, tuple[str, ...]]

    @property
    def ready(self) -> bool:
        """Whether the server should be sent reviews."""
        return not any(self.checks.values())


class Lifecycle:
    """The phase, and the checks that make the server ready. Read from any thread, written by the event loop's."""

    def __init__(self, certificate: Check) -> None:
        self.phase = Phase.STARTING
        self._checks: dict[str, Check] = {"server": self._phase_reasons, "certificate": certificate}
        self._notes: Mapping[str, Check] = {}

    def serve(self, application: Application) -> None:
        """Set-up is done; from now on the application's checks count as well."""
        self._checks = {**self._checks, **application.readiness}
        self._notes = application.notes
        if self.phase is Phase.STARTING:
            self.phase = Phase.SERVING

    def drain(self) -> None:
        """The server is about to stop."""
        self.phase = Phase.DRAINING

    def report(self) -> Report:
        """What every check says now."""
        return Report(_ask(self._checks), _ask(self._notes))

    def _phase_reasons(self) -> Sequence[str]:
        return () if self.phase is Phase.SERVING else (self.phase.value,)


def _ask(checks: Mapping[str, Check]) -> Mapping[str, tuple[str, ...]]:
    return {name: tuple(check()) for name, check in checks.items()}
