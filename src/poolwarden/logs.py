"""Logs go to standard error: for people on a terminal, JSON elsewhere."""

import logging
import sys

import structlog


def configure(*, verbose: bool, summary_follows: bool = False) -> None:
    """Set up structlog. On a terminal, what a summary will say (`summary_follows`) is not logged as well."""
    terminal = sys.stderr.isatty()
    least = logging.DEBUG if verbose else logging.ERROR if terminal and summary_follows else logging.INFO
    renderer = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
