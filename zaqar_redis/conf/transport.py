# SPDX-License-Identifier: Apache-2.0
"""Limits of the API; names, groups and defaults are stock Zaqar's."""

from __future__ import annotations

from oslo_config import cfg

from zaqar_redis import rules

_DEFAULTS = rules.Limits()

#: Lua hands lists to Redis in one piece, which ends near 8000 values.
_PAGE_MAX = 1000
_YEARS = 100 * 365 * 86400


def _number(name: str, least: int, most: int, text: str) -> cfg.IntOpt:
    return cfg.IntOpt(name, default=getattr(_DEFAULTS, name), min=least, max=most, help=text)


_TRANSPORT = [
    _number("max_queues_per_page", 1, _PAGE_MAX, "Most queues in one listing."),
    _number(
        "max_messages_per_page",
        1,
        _PAGE_MAX,
        "Most messages in one listing, and most ids in one request.",
    ),
    _number(
        "max_messages_per_claim_or_pop",
        1,
        _PAGE_MAX,
        "Most messages that one claim or one pop may take.",
    ),
    _number("max_queue_metadata", 2, 2**30, "Most bytes of a queue's metadata."),
    _number("max_messages_post_size", 1, 2**29, "Most bytes of one request that posts messages."),
    _number("max_message_ttl", 60, _YEARS, "Longest life of a message, in seconds."),
    _number("max_message_delay", 0, _YEARS, "Longest delay of a message, in seconds."),
    _number("max_claim_ttl", 60, _YEARS, "Longest life of a claim, in seconds."),
    _number(
        "max_claim_grace", 60, _YEARS, "Longest grace that a claim gives its messages, in seconds."
    ),
    _number("default_message_ttl", 60, _YEARS, "Life of a message that names none, in seconds."),
    _number(
        "default_message_delay", 0, _YEARS, "Delay shown for queues that set none, in seconds."
    ),
    _number("default_claim_ttl", 60, _YEARS, "Life of a claim that names none, in seconds."),
    _number("default_claim_grace", 60, _YEARS, "Grace of a claim that names none, in seconds."),
    cfg.StrOpt(
        "client_id_uuid_safe",
        default=_DEFAULTS.client_id_uuid_safe,
        choices=["strict", "off"],
        help="Whether the Client-ID header must be a UUID (strict), or only within the two "
        "lengths below (off).",
    ),
    _number("min_length_client_id", 1, 1024, "Shortest Client-ID when client_id_uuid_safe is off."),
    _number("max_length_client_id", 1, 1024, "Longest Client-ID when client_id_uuid_safe is off."),
    cfg.BoolOpt(
        "message_delete_with_claim_id",
        default=_DEFAULTS.message_delete_with_claim_id,
        help="Whether deleting messages by ids must also name the claims that hold them.",
    ),
    cfg.StrOpt(
        "message_encryption_key",
        secret=True,
        help="Key with which the bodies of queues that set _enable_encrypt_messages are encrypted "
        "(AES-256-GCM). Without it such queues cannot be made: there is no built-in key.",
    ),
    _number(
        "max_wait",
        0,
        3600,
        "Longest time that a claim or a listing may wait for messages, in seconds.",
    ),
    _number(
        "idempotency_window",
        1,
        30 * 86400,
        "Seconds for which a retried post is recognised by its Idempotency-Key, at least; twice "
        "that at most. A queue's _idempotency_window comes first.",
    ),
    _number(
        "max_idempotency_window",
        1,
        30 * 86400,
        "Largest _idempotency_window of a queue, in seconds. A key that is remembered takes some "
        "100 bytes of Redis' memory.",
    ),
    cfg.IntOpt(
        "max_waiting",
        default=10_000,
        min=0,
        help="Most requests of one worker that may wait for messages.",
    ),
]

OPTIONS: list[tuple[str | None, list[cfg.Opt]]] = [
    ("transport", _TRANSPORT),
    (
        "signed_url",
        [
            cfg.StrOpt(
                "secret_key",
                secret=True,
                help="Key with which pre-signed URLs are made and checked. Without it none are.",
            )
        ],
    ),
]


def limits(conf: cfg.ConfigOpts) -> rules.Limits:
    return rules.Limits(**{name: conf.transport[name] for name in rules.Limits.__struct_fields__})
