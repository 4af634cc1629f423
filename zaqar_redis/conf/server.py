# SPDX-License-Identifier: Apache-2.0
"""The process: where it listens, how many workers it has."""

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
                help="Let admin_mode listen elsewhere than on this machine's own addresses, "
                "though nobody is asked who they are.",
            ),
            cfg.BoolOpt(
                "pooling",
                default=True,
                help="Let queues live in pools. Without pools they live in [storage] uri, as "
                "they do when this is off.",
            ),
            cfg.BoolOpt(
                "enable_checksum", default=False, help="Give every message a checksum of its body."
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
                help="Seconds that open requests get when the service stops.",
            ),
            cfg.IntOpt(
                "max_connections",
                default=16_384,
                min=1,
                help="Most open connections of one worker; beyond, new ones get 503. Requests "
                "that wait for messages hold one each.",
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
                help="What is logged, to standard error.",
            ),
        ],
    ),
]


def problems(conf: cfg.ConfigOpts) -> list[str]:
    """What of these options does not fit together."""
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
