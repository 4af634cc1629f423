# SPDX-License-Identifier: Apache-2.0
"""The options of oslo.log, which are there when it writes the log."""

from __future__ import annotations

from oslo_config import cfg

from zaqar_redis import errors


def options(conf: cfg.ConfigOpts) -> list[cfg.Opt]:
    """Returns the options of [DEFAULT].  Raises BadConfiguration when oslo.log is missing."""
    try:
        if conf.server.log_format != "oslo":
            return []
    except (cfg.Error, ValueError):  # reported with all other values
        return []
    try:
        from oslo_log import _options
    except ImportError:
        raise errors.BadConfiguration(
            "[server] log_format: oslo needs oslo.log, of the extra openstack: "
            "pip install '.[openstack]'"
        ) from None
    [(_, found)] = _options.list_opts()
    return list(found)
