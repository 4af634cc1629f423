# SPDX-License-Identifier: Apache-2.0
"""The log of a service: text, JSON, or oslo.log's; one line an event."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec
from gunicorn import glogging
from oslo_config import cfg

from zaqar_redis.api import access_log
from zaqar_redis.conf.groups import ProcessSettings

#: Fields beside those of every line, from ``extra``; in their order.
_FIELDS = (
    *("action", "request_id", "global_request_id", "project", "user", "queue", "subscription"),
    *("trust", "store", "error"),
    *("method", "path", "status", "duration", "peer", "client_id"),
)
#: Attributes of oslo.context, which `api.problems` gives for oslo.log -> our names.
_OF_CONTEXT = {
    "request_id": "request_id",
    "global_request_id": "global_request_id",
    "project_id": "project",
    "user_id": "user",
}


class TextFormatter(logging.Formatter):
    """Time, process, level, text, and the other fields as ``name=value``."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] [%(process)d] [%(levelname)s] %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_text(value)}" for name, value in _fields(record))
        # Also a traceback is in the line of its event, and no client can begin another one.
        return _one_line(super().format(record)) + fields


class JsonFormatter(logging.Formatter):
    """An object a line."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        document |= _fields(record)
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(document, enc_hook=str).decode()


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    context = vars(record).get("context")
    found = {ours: getattr(context, name, None) for name, ours in _OF_CONTEXT.items()}
    found |= {name: vars(record)[name] for name in _FIELDS if name in vars(record)}
    return ((name, found[name]) for name in _FIELDS if found.get(name) not in (None, ""))


def _text(value: object) -> str:
    text = _one_line(str(value))
    return f'"{text}"' if " " in text else text


def _one_line(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _about_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Returns the text of a warning of Python, without the line of code that Python adds."""
    return f"{category.__name__}: {message} ({filename}:{lineno})"


_FORMATS: Mapping[str, type[logging.Formatter]] = {"plain": TextFormatter, "json": JsonFormatter}


class GunicornLogger(glogging.Logger):  # type: ignore[misc]  # it is untyped
    """Hands gunicorn's events to the root logger, for one format of all."""

    def setup(self, cfg: object) -> None:
        level = self.error_log.level  # one of its own, or that of the root
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True
        self.error_log.setLevel(level)


class _Levels:
    """Levels of single loggers, which a reload takes back."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def set(self, levels: Mapping[str, str]) -> None:
        for name, level in self._before.items():
            logging.getLogger(name).setLevel(level)
        self._before = {name: logging.getLogger(name).level for name in levels}
        for name, text in levels.items():
            logging.getLogger(name).setLevel(text.upper())


_LEVELS = _Levels()


def start(conf: cfg.ConfigOpts, process: ProcessSettings) -> None:
    """Replaces the log of the command line; at a reload, that of before."""
    if process.log_format == "oslo":
        from oslo_log import log

        log.setup(conf, "zaqar-redis")
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(_FORMATS[process.log_format]())
        logging.basicConfig(level=process.log_level.upper(), handlers=[handler], force=True)
    # What libraries warn of goes to the logger py.warnings, not to standard error.
    warnings.formatwarning = _about_warning
    logging.captureWarnings(True)
    access_log.LOG.setLevel(logging.INFO)  # an option of its own says whether it is written
    _LEVELS.set(dict(each.split("=") for each in process.log_levels))
