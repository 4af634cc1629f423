# SPDX-License-Identifier: Apache-2.0
"""Counts what is written to the log."""

from __future__ import annotations

import logging

from zaqar_redis.metrics.definitions import LOG_EVENTS

#: These have handlers of their own; all others end at the root.
_LOGGERS = ("", "gunicorn.error", "uvicorn.error")


class LogEventCounter(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        LOG_EVENTS.add(record.levelname.lower())


def count_log_events() -> None:
    """Counts from now on.  Idempotent."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if (not name or not logger.propagate) and not any(
            isinstance(each, LogEventCounter) for each in logger.handlers
        ):
            logger.addHandler(LogEventCounter())
