# SPDX-License-Identifier: Apache-2.0
"""Limits of the API; names, groups and defaults are stock Zaqar's."""

from __future__ import annotations

from oslo_config import cfg

from zaqar_redis import rules

_DEFAULTS = rules.Limits()

#: Lua passes a list to Redis as the arguments of one call: at most some 8000 values.
_PAGE_MAX = 1000
_YEARS = 100 * 365 * 86400


def _number(name: str, least: int, most: int, text: str) -> cfg.IntOpt:
    return cfg.IntOpt(name, default=getattr(_DEFAULTS, name), min=least, max=most, help=text)


_TRANSPORT = [
    _number("max_queues_per_page", 1, _PAGE_MAX, "Maximum number of queues in one listing."),
    _number(
        "max_messages_per_page",
        1,
        _PAGE_MAX,
        "Maximum number of messages in one listing, and of ids in one request.",
    ),
    _number(
        "max_messages_per_claim_or_pop",
        1,
        _PAGE_MAX,
        "Maximum number of messages in one claim or one pop.",
    ),
    _number("max_queue_metadata", 2, 2**30, "Maximum size of a queue's metadata, in bytes."),
    _number(
        "max_messages_post_size",
        1,
        2**29,
        "Maximum size of one request that posts messages, in bytes.",
    ),
    _number("max_message_ttl", 60, _YEARS, "Maximum TTL of a message, in seconds."),
    _number("max_message_delay", 0, _YEARS, "Maximum delay of a message, in seconds."),
    _number("max_claim_ttl", 60, _YEARS, "Maximum TTL of a claim, in seconds."),
    _number("max_claim_grace", 60, _YEARS, "Maximum grace of the messages of a claim, in seconds."),
    _number("default_message_ttl", 60, _YEARS, "TTL of messages posted without one, in seconds."),
    _number(
        "default_message_delay", 0, _YEARS, "Delay shown for queues that set none, in seconds."
    ),
    _number("default_claim_ttl", 60, _YEARS, "TTL of claims created without one, in seconds."),
    _number("default_claim_grace", 60, _YEARS, "Grace of claims created without one, in seconds."),
    cfg.StrOpt(
        "client_id_uuid_safe",
        default=_DEFAULTS.client_id_uuid_safe,
        choices=["strict", "off"],
        help="Whether the Client-ID header must be a UUID (strict), or only have a length within "
        "the two limits below (off).",
    ),
    _number(
        "min_length_client_id",
        1,
        1024,
        "Minimum length of a Client-ID when client_id_uuid_safe is off.",
    ),
    _number(
        "max_length_client_id",
        1,
        1024,
        "Maximum length of a Client-ID when client_id_uuid_safe is off.",
    ),
    cfg.BoolOpt(
        "message_delete_with_claim_id",
        default=_DEFAULTS.message_delete_with_claim_id,
        help="Whether a request that deletes messages by ids must also name their claims.",
    ),
    cfg.StrOpt(
        "message_encryption_key",
        secret=True,
        help="Key that encrypts message bodies (AES-256-GCM) in queues that set "
        "_enable_encrypt_messages. Without it such queues cannot be created: there is no built-in "
        "key.",
    ),
    _number(
        "max_wait",
        0,
        3600,
        "Maximum time that a claim or a listing may wait for messages, in seconds.",
    ),
    _number(
        "idempotency_window",
        1,
        30 * 86400,
        "Minimum number of seconds that a retried post is recognised by its Idempotency-Key; the "
        "maximum is twice that. A queue's _idempotency_window overrides it.",
    ),
    _number(
        "max_idempotency_window",
        1,
        30 * 86400,
        "Maximum _idempotency_window of a queue, in seconds. Each idempotency record takes some "
        "100 bytes of Redis' memory.",
    ),
    cfg.IntOpt(
        "max_waiting",
        default=10_000,
        min=0,
        help="Maximum number of requests of one worker that wait for messages.",
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
                help="Key that creates and checks pre-signed URLs. Without it there are none.",
            )
        ],
    ),
]


def limits(conf: cfg.ConfigOpts) -> rules.Limits:
    return rules.Limits(**{name: conf.transport[name] for name in rules.Limits.__struct_fields__})
