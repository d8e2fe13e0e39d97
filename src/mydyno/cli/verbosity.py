"""--verbose: the commands that mydyno starts, and its own debug messages, on stderr."""

from __future__ import annotations

import logging
import sys
import time


class StderrHandler(logging.Handler):
    """Writes to what sys.stderr is at that moment: a progress bar puts its own stream there while it is drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line with the time of day."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        print(f"{clock}.{record.msecs:03.0f} {record.name}: {record.getMessage()}", file=sys.stderr)


def set_verbosity(verbose: bool) -> None:
    """Print debug messages where --verbose was given; else none."""
    logger = logging.getLogger("mydyno")
    logger.propagate = False
    logger.handlers = [StderrHandler()] if verbose else [logging.NullHandler()]
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
