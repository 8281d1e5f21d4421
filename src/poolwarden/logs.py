"""Logs go to standard error: for people on a terminal, JSON elsewhere."""

import logging
import sys

import structlog
from structlog.typing import EventDict, WrappedLogger

from poolwarden.plain import printable


def configure(*, verbose: bool, summary_follows: bool = False) -> None:
    """Set up structlog. On a terminal, what a summary will say (`summary_follows`) is not logged as well."""
    terminal = sys.stderr.isatty()
    least = logging.DEBUG if verbose else logging.ERROR if terminal and summary_follows else logging.INFO
    renderers = (_printable, structlog.dev.ConsoleRenderer()) if terminal else (structlog.processors.JSONRenderer(),)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Texts without control characters: structlog quotes only those with blanks. Lines are kept in a traceback alone."""
    kept = {"exception": "\n".join(map(printable, event["exception"].split("\n")))} if "exception" in event else {}
    texts = {key: printable(value.replace("\n", " ")) for key, value in event.items() if isinstance(value, str)}
    return {**event, **texts, **kept}
