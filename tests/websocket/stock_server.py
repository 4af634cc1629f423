# SPDX-License-Identifier: Apache-2.0
"""Stock Zaqar's WebSocket server over a Redis: ``python -m … URI PORT``."""

from __future__ import annotations

import sys

from oslo_config import cfg
from oslo_log import log
from zaqar import bootstrap


def main(uri: str, port: int) -> None:
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([], project="zaqar", default_config_files=[])
    parts = bootstrap.Bootstrap(conf)
    conf.set_override("auth_strategy", "")
    conf.set_override("transport", "websocket", group="drivers")
    for role in ("message_store", "management_store"):
        conf.set_override(role, "redis", group="drivers")
        conf.set_override("uri", uri, group=f"drivers:{role}:redis")
    transport = parts.transport
    conf.set_override("bind", "127.0.0.1", group="drivers:transport:websocket")
    conf.set_override("port", port, group="drivers:transport:websocket")
    transport.listen()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
