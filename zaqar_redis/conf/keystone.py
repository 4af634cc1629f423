# SPDX-License-Identifier: Apache-2.0
"""The options of keystonemiddleware, which are there with the strategy that uses them."""

from __future__ import annotations

from oslo_config import cfg

from zaqar_redis.auth import keystone


def token_options(conf: cfg.ConfigOpts) -> dict[str, list[cfg.Opt]]:
    """Returns the options by group.  Raises BadConfiguration."""
    return keystone.options(conf) if "keystone" in conf.auth.strategy else {}


def register(conf: cfg.ConfigOpts) -> None:
    for group, each in token_options(conf).items():
        conf.register_opts(each, group=group)
