# SPDX-License-Identifier: Apache-2.0
"""Checks for contradictory options: they are reported at the start, not to a client."""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

from oslo_config import cfg

from zaqar_redis import rules
from zaqar_redis.conf.groups import CHANNELS, LISTEN, SSL, WEBSOCKET
from zaqar_redis.keyspace import uris
from zaqar_redis.realtime.node.queue_channels import QueueChannelOptions
from zaqar_redis.realtime.session.namespaces import NAME, ChannelOptions

_LEVELS = ("debug", "info", "warning", "error", "critical")
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


def check_certificates(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yields what is wrong with the files of TLS."""
    files = conf[SSL]
    named = {name: files[name] for name in ("cert_file", "key_file", "ca_file") if files[name]}
    if named and "cert_file" not in named:
        yield f"[{SSL}] {', '.join(named)}: it has no effect without cert_file"
        return
    for name, path in named.items():
        try:
            Path(path).read_bytes()
        except OSError as error:  # that of the ssl module names no file
            yield f"[{SSL}] {name}: {path}: {error.strerror}"
            return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name, load in (
        # Without an own answer, the library would ask for a passphrase at the terminal.
        ("cert_file", lambda cert: context.load_cert_chain(cert, files.key_file, lambda: "")),
        ("ca_file", context.load_verify_locations),
    ):
        try:
            if name in named:
                load(named[name])
        except ssl.SSLError as error:
            others = f", or key_file {files.key_file}" if files.key_file else ""
            what = named[name] + (others if name == "cert_file" else "")
            yield f"[{SSL}] {name}: {what}: it cannot be used: {error.reason or error}"


def check_client_ids(limits: rules.Limits) -> Iterator[str]:
    """Yields what is wrong with the limits of a Client-ID."""
    least, most = limits.min_length_client_id, limits.max_length_client_id
    if limits.client_id_uuid_safe == "off" and least > most:
        yield f"[transport] min_length_client_id: it must be at most max_length_client_id ({most})"


def check_log_levels(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yields what is wrong with the levels of single loggers."""
    for each in conf.server.log_levels:
        name, equals, level = each.partition("=")
        if not (name and equals and level in _LEVELS):
            yield (
                f'[server] log_levels: "{each}" must be like zaqar_redis.auth=debug, with '
                f"{', '.join(_LEVELS)}"
            )


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
    for option in ("uris", "bus"):
        stores = [uris.canonical(uri) for uri in group[option]]
        for number, store in enumerate(stores, 1):
            if store in stores[: number - 1]:
                # By its number: the URI may contain a password.
                yield _bad(option, f"number {number} is a duplicate")
    is_zeromq = any(uri.startswith("zeromq:") for uri in group.bus)
    for option in ("bus_curve_server_key", "bus_curve_public_key", "bus_curve_secret_key"):
        if group[option] and not is_zeromq:
            yield _bad(option, "it encrypts a bus of zeromq:// only, and bus names none")


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
