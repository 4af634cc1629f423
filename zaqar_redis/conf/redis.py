# SPDX-License-Identifier: Apache-2.0
"""How Redis is talked to."""

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
        help="Most commands in one write.",
    ),
    cfg.IntOpt(
        "batch_bytes", default=_DEFAULTS.batch_bytes, min=1024, help="Bytes in one write, about."
    ),
    cfg.IntOpt(
        "in_flight",
        default=_DEFAULTS.in_flight,
        min=1,
        help="Most commands of one worker without an answer; beyond, requests get 503.",
    ),
    cfg.IntOpt(
        "backlog_bytes",
        default=_DEFAULTS.backlog_bytes,
        min=1024 * 1024,
        help="Most bytes of commands that wait to be written; beyond, requests get 503.",
    ),
    cfg.FloatOpt(
        "timeout",
        default=_DEFAULTS.timeout,
        min=0.1,
        help="Seconds until a command without an answer is given up.",
    ),
    cfg.FloatOpt(
        "connect_timeout",
        default=_DEFAULTS.connect_timeout,
        min=0.1,
        help="Seconds for making a connection.",
    ),
    cfg.FloatOpt(
        "backoff",
        default=_DEFAULTS.backoff,
        min=0.001,
        help="Seconds before the first attempt to connect again.",
    ),
    cfg.FloatOpt(
        "backoff_max",
        default=_DEFAULTS.backoff_max,
        min=0.001,
        help="Most seconds between attempts to connect.",
    ),
]

OPTIONS: list[tuple[str | None, list[cfg.Opt]]] = [("redis", _REDIS)]


def options(conf: cfg.ConfigOpts) -> dict[str, Any]:
    return {option.name: conf.redis[option.name] for option in _REDIS}
