# SPDX-License-Identifier: Apache-2.0
"""Where queues are kept."""

from __future__ import annotations

from oslo_config import cfg

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
                "unix:///socket use yours; memory:// keeps everything in one process, for "
                "trying out. Other schemes come with other storage drivers.",
            ),
            cfg.StrOpt(
                "control_uri",
                secret=True,
                help="The Redis that knows the pools, the flavors, and which pool each queue "
                "lives in; without it the one of uri.",
            ),
            cfg.FloatOpt(
                "sweep_interval",
                default=60.0,
                min=1.0,
                help="Seconds between rounds that tidy queues which nobody uses.",
            ),
        ],
    ),
]
