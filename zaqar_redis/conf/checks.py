# SPDX-License-Identifier: Apache-2.0
"""Checks for contradictory options: they are reported at the start, not to a client."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from oslo_config import cfg

from zaqar_redis.conf.groups import CHANNELS, LISTEN, WEBSOCKET
from zaqar_redis.keyspace import uris
from zaqar_redis.realtime.node.queue_channels import QueueChannelOptions
from zaqar_redis.realtime.session.namespaces import NAME, ChannelOptions

#: Options that have no effect without a history.
_OF_HISTORY = ("force_recovery", "force_positioning", "auto_cache_recover")


def check_authentication(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yields what is wrong with the strategies at the address that the service listens on."""
    listen, strategies = conf[LISTEN].bind, conf.auth.strategy
    if not strategies:
        yield "[auth] strategy: it may not be empty; without authentication it is none"
    elif "none" in strategies and len(strategies) > 1:
        yield "[auth] strategy: with none no other strategy would ever be asked"
    elif "none" in strategies and not (conf.auth.insecure or _is_loopback(listen)):
        yield (
            f"[auth] strategy: {listen} is not an address of this machine alone, and everybody "
            "who reaches the service could act for every project; choose another strategy than "
            "none, bind to 127.0.0.1, or say --insecure"
        )


def check_ports(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yields what is wrong with the ports that the service listens on."""
    port = conf[WEBSOCKET].port
    if port and port == conf[LISTEN].port:
        yield f"[{WEBSOCKET}] port: {port} is the port of the whole service, which has /v2/ws"
    metrics = conf.metrics.port
    if metrics and metrics in (port, conf[LISTEN].port):
        yield f"[metrics] port: {metrics} is a port of the service itself; metrics need their own"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_names(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yields contradictions between the options of [channels] itself."""
    group = conf[CHANNELS]
    for name in group.namespaces:
        if not NAME.fullmatch(name):
            yield _bad(
                "namespaces",
                f'"{name}" is not a valid name: it must be two or more ASCII letters, digits, '
                "underscores, dashes and dots",
            )
    personal = group.personal_channel_namespace
    if personal and personal not in group.namespaces:
        yield _bad("personal_channel_namespace", f'"{personal}" is not in the option namespaces')
    if not group.project.strip():
        yield _bad("project", "it may not be empty")
    if group.pong_timeout >= group.ping_interval:
        yield _bad("pong_timeout", f"it must be less than ping_interval ({group.ping_interval})")
    for origin in group.allowed_origins:
        if origin != "*" and "://" not in origin:
            yield _bad("allowed_origins", f"{origin}: it must be * or like https://*.example.org")
    stores = [uris.canonical(uri) for uri in group.uris]
    for number, store in enumerate(stores, 1):
        if store in stores[: number - 1]:
            # By its number: the URI may contain a password.
            yield _bad("uris", f"number {number} is a duplicate")


def check_options(group: str, options: ChannelOptions) -> Iterator[str]:
    """Yields contradictions between the options of one namespace."""
    try:
        re.compile(options.channel_regex)
    except re.error as error:
        yield _bad("channel_regex", f"{error}", group)
    if isinstance(options, QueueChannelOptions):
        # Its history is the queue itself, whose messages are JSON.
        if not options.publication_data_format.startswith("json"):
            yield _bad("publication_data_format", "messages of queues are JSON", group)
        return
    size, ttl = options.history_size, options.history_ttl
    if bool(size) != bool(ttl):
        present, missing = ("size", "ttl") if size else ("ttl", "size")
        yield _bad(f"history_{missing}", f"with history_{present} it must be more than 0", group)
    for name in _OF_HISTORY:
        if getattr(options, name) and not options.has_history:
            yield _bad(name, "it has no effect without history_size and history_ttl", group)


def _bad(option: str, why: str, group: str = CHANNELS) -> str:
    return f"[{group}] {option}: {why}"
