# SPDX-License-Identifier: Apache-2.0
"""Options of the process: its address, its workers, its limits."""

from __future__ import annotations

import ipaddress

from oslo_config import cfg

OPTIONS: list[tuple[str | None, list[cfg.Opt]]] = [
    (
        None,
        [
            cfg.BoolOpt(
                "admin_mode",
                default=False,
                help="Serve /v2/health, /v2/pools and /v2/flavors, to everybody who can reach "
                "this service.",
            ),
            cfg.BoolOpt(
                "admin_mode_on_any_address",
                default=False,
                help="Allow admin_mode on addresses other than loopback, although the service "
                "authenticates nobody.",
            ),
            cfg.BoolOpt(
                "pooling",
                default=True,
                help="Distribute queues over pools. When this is off, or there are no pools, all "
                "queues are in [storage] uri.",
            ),
            cfg.BoolOpt(
                "enable_checksum",
                default=False,
                help="Add a checksum of the body to every message.",
            ),
        ],
    ),
    (
        "drivers:transport:wsgi",
        [
            cfg.HostAddressOpt("bind", default="127.0.0.1", help="Address to listen on."),
            cfg.PortOpt("port", default=8888, help="Port to listen on."),
        ],
    ),
    (
        "server",
        [
            cfg.IntOpt(
                "workers",
                default=1,
                min=1,
                max=256,
                help="Worker processes; one for each core is enough.",
            ),
            cfg.IntOpt(
                "graceful_timeout",
                default=30,
                min=1,
                help="Seconds that open requests have to finish when the service stops.",
            ),
            cfg.IntOpt(
                "max_connections",
                default=16_384,
                min=1,
                help="Maximum number of open connections of one worker; beyond, new ones get 503. "
                "Each request that waits for messages uses one.",
            ),
            cfg.FloatOpt(
                "request_timeout",
                default=60.0,
                min=1.0,
                help="Seconds that a client may take to send one request; then it gets 408.",
            ),
            cfg.StrOpt(
                "log_level",
                default="info",
                choices=["debug", "info", "warning", "error", "critical"],
                help="Lowest level that is logged, to standard error.",
            ),
        ],
    ),
]


def problems(conf: cfg.ConfigOpts) -> list[str]:
    """Returns contradictions between these options."""
    listen = conf["drivers:transport:wsgi"].bind
    if conf.admin_mode and not (conf.admin_mode_on_any_address or _is_loopback(listen)):
        return [
            f"admin_mode: {listen} is not an address of this machine alone, and everybody who "
            "reaches the service could change its pools; bind to 127.0.0.1 or set "
            "admin_mode_on_any_address"
        ]
    return []


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
