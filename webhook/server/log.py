"""What the libraries log goes where ours goes, without the contents of anything."""

import logging
import traceback
from pathlib import Path
from types import TracebackType

import structlog
from gunicorn.config import Config
from gunicorn.glogging import Logger

DEEPEST = 8
"""Frames: enough to see who called what."""


def place(trace: TracebackType | None) -> str:
    """Where an exception came from: files and lines, innermost last, no values."""
    frames = traceback.extract_tb(trace)[-DEEPEST:]
    return " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)


class ToStructlog(logging.Handler):
    """Passes records on. Of an exception only type and place: its message may quote what a client sent."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record."""
        fault: dict[str, str] = {}
        if record.exc_info and record.exc_info[0]:
            fault = {"error": record.exc_info[0].__name__, "at": place(record.exc_info[2])}
        structlog.get_logger().log(record.levelno, record.getMessage().strip(), logger=record.name, **fault)


class Log(Logger):
    """gunicorn's logger, and through it uvicorn's, asyncio's and Flask's."""

    loglevel = logging.WARNING

    def setup(self, cfg: Config) -> None:
        """Set all loggers up. Warnings and above: what is normal, our own events say."""
        self.cfg = cfg
        root = logging.getLogger()
        root.handlers = [ToStructlog()]
        root.setLevel(self.loglevel)
        self.error_log.handlers = root.handlers
        self.error_log.setLevel(self.loglevel)
        self.access_log.handlers = []
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # its warnings are about what clients send
