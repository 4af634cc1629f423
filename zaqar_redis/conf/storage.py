# SPDX-License-Identifier: Apache-2.0
"""Options of the stores."""

from __future__ import annotations

from oslo_config import cfg

from zaqar_redis.storage.pools.router import DEFAULT_RETRY

OPTIONS: list[tuple[str | None, list[cfg.Opt]]] = [
    (
        "storage",
        [
            cfg.StrOpt(
                "uri",
                default="embedded://",
                secret=True,
                help="The store. embedded://[/directory] runs a private Redis or Valkey; "
                "redis://[[user]:password@]host[:port][/database], rediss:// (TLS) and "
                "unix:///socket use yours; memory:// stores everything in one process, for "
                "development. Other storage drivers add other schemes.",
            ),
            cfg.StrOpt(
                "control_uri",
                secret=True,
                help="The Redis that stores the pools, the flavors, and the catalogue of which "
                "queue is in which pool. Default: that of uri.",
            ),
            cfg.FloatOpt(
                "move_timeout",
                default=DEFAULT_RETRY.move_timeout,
                min=0.0,
                max=60.0,
                help="Seconds for which a request waits for a queue that is being moved to "
                "another pool; then it gets 503.",
            ),
            cfg.FloatOpt(
                "sweep_interval",
                default=60.0,
                min=1.0,
                help="Seconds between two rounds of the sweeper, which removes what has expired.",
            ),
        ],
    ),
]
