# SPDX-License-Identifier: Apache-2.0
"""Options of the connections to Redis."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from zaqar_redis.keyspace.batch import BatchSettings

_DEFAULTS = BatchSettings()

_REDIS = [
    cfg.IntOpt(
        "batch_commands",
        default=_DEFAULTS.batch_commands,
        min=1,
        help="Maximum number of commands in one write.",
    ),
    cfg.IntOpt(
        "batch_bytes",
        default=_DEFAULTS.batch_bytes,
        min=1024,
        help="Approximate maximum number of bytes in one write.",
    ),
    cfg.IntOpt(
        "in_flight",
        default=_DEFAULTS.in_flight,
        min=1,
        help="Maximum number of commands of one worker without a reply; beyond, requests get 503.",
    ),
    cfg.IntOpt(
        "backlog_bytes",
        default=_DEFAULTS.backlog_bytes,
        min=1024 * 1024,
        help="Maximum number of bytes of commands that wait to be written; beyond, requests get "
        "503.",
    ),
    cfg.FloatOpt(
        "timeout",
        default=_DEFAULTS.timeout,
        min=0.1,
        help="Seconds that a command waits for its reply.",
    ),
    cfg.FloatOpt(
        "connect_timeout",
        default=_DEFAULTS.connect_timeout,
        min=0.1,
        help="Seconds that connecting may take.",
    ),
    cfg.FloatOpt(
        "backoff",
        default=_DEFAULTS.backoff,
        min=0.001,
        help="Seconds before the first attempt to reconnect.",
    ),
    cfg.FloatOpt(
        "backoff_max",
        default=_DEFAULTS.backoff_max,
        min=0.001,
        help="Maximum number of seconds between attempts to reconnect.",
    ),
]

OPTIONS: list[tuple[str | None, list[cfg.Opt]]] = [("redis", _REDIS)]


def options(conf: cfg.ConfigOpts) -> dict[str, Any]:
    return {option.name: conf.redis[option.name] for option in _REDIS}
