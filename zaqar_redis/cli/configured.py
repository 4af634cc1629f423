# SPDX-License-Identifier: Apache-2.0
"""From options to the parts of the service."""

from __future__ import annotations

from collections.abc import Callable

from oslo_config import cfg

from zaqar_redis.api.app import Settings
from zaqar_redis.conf import redis, transport
from zaqar_redis.storage import pooled
from zaqar_redis.storage.driver import Driver
from zaqar_redis.storage.load import can_control, load


def driver(conf: cfg.ConfigOpts, uri: str) -> Callable[[], Driver]:
    """What makes a driver for the store at *uri* and, unless they are off, its pools."""
    options = redis.options(conf)
    control = conf.storage.control_uri or uri
    # Another driver's store may have no room for pools; it works without.
    if not conf.pooling or not (conf.storage.control_uri or can_control(uri)):
        return lambda: load(uri, options)
    return lambda: pooled.create(uri, control, options)


def settings(conf: cfg.ConfigOpts) -> Settings:
    return Settings(
        limits=transport.limits(conf),
        admin_mode=conf.admin_mode,
        enable_checksum=conf.enable_checksum,
        signing_key=conf.signed_url.secret_key,
        encryption_key=conf.transport.message_encryption_key,
        max_waiting=conf.transport.max_waiting,
        sweep_interval=conf.storage.sweep_interval,
        max_connections=conf.server.max_connections,
        request_timeout=conf.server.request_timeout,
    )
