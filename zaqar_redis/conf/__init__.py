# SPDX-License-Identifier: Apache-2.0
"""oslo.config options, and the frozen settings that the rooms take.

No room but this one and the command line sees ``conf``.
"""

from __future__ import annotations

from oslo_config import cfg

from zaqar_redis.conf import channels, redis, server, storage, transport

_GROUPS = (server, storage, redis, transport, channels)


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Every option by group, as oslo.config's generator wants them."""
    return [(group, list(options)) for room in _GROUPS for group, options in room.OPTIONS]


def load(arguments: list[str], files: list[str] | None) -> cfg.ConfigOpts:
    """Read configuration files; with None, those at the standard places.

    Raises `oslo_config.cfg.Error`.
    """
    conf = cfg.ConfigOpts()
    for group, options in list_opts():
        conf.register_opts(options, group=group)
    conf(args=arguments, project="zaqar_redis", prog="zaqar_redis", default_config_files=files)
    return conf
