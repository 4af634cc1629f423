# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the options of channels: said at the start, not to the first client."""

from __future__ import annotations

import re
from collections.abc import Iterator

from oslo_config import cfg

from zaqar_redis.keyspace import uris
from zaqar_redis.realtime.namespaces import NAME, Options
from zaqar_redis.realtime.queues import QueueOptions

_GROUP = "channels"
#: Without a history they do nothing.
_OF_HISTORY = ("force_recovery", "force_positioning", "auto_cache_recover")


def check_names(conf: cfg.ConfigOpts) -> Iterator[str]:
    """What of [channels] itself does not fit together."""
    group = conf[_GROUP]
    for name in group.namespaces:
        if not NAME.fullmatch(name):
            yield _bad(
                "namespaces",
                f'"{name}" is no name: it must be two or more ASCII letters, digits, underscores, '
                "dashes and dots",
            )
    personal = group.personal_channel_namespace
    if personal and personal not in group.namespaces:
        yield _bad("personal_channel_namespace", f'"{personal}" is none of the namespaces')
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
            yield _bad("uris", f"number {number} is there twice")  # it may have a password


def check_options(group: str, options: Options) -> Iterator[str]:
    """What of the options of one namespace does not fit together."""
    try:
        re.compile(options.channel_regex)
    except re.error as error:
        yield _bad("channel_regex", f"{error}", group)
    if isinstance(options, QueueOptions):
        # Its history is the queue itself, whose messages are JSON.
        if not options.publication_data_format.startswith("json"):
            yield _bad("publication_data_format", "messages of queues are JSON", group)
        return
    size, ttl = options.history_size, options.history_ttl
    if bool(size) != bool(ttl):
        there, missing = ("size", "ttl") if size else ("ttl", "size")
        yield _bad(f"history_{missing}", f"with history_{there} it must be more than 0", group)
    for name in _OF_HISTORY:
        if getattr(options, name) and not options.has_history:
            yield _bad(name, "without history_size and history_ttl it does nothing", group)


def _bad(option: str, why: str, group: str = _GROUP) -> str:
    return f"[{group}] {option}: {why}"
