# SPDX-License-Identifier: Apache-2.0
"""All name patterns, ranges and limits.

The rules are those of the Zaqar v2 API; a function here raises the error that
the client gets, and its text names the field and the limit.
"""

from __future__ import annotations

import functools
import re
import uuid
from typing import Any

import msgspec

from zaqar_redis import errors

QUEUE_NAME_MAX = 64
PROJECT_MAX = 256
TTL_MIN = 60
CLAIM_TTL_MIN = 60
GRACE_MIN = 60
#: API: of a pool.
URI_MAX = 255
WEIGHT_MAX = 2**32 - 1
#: No known client library creates longer keys.
IDEMPOTENCY_KEY_MAX = 255
#: Levels of objects and arrays in metadata: what was written must be readable
#: everywhere, and how deep a decoder can go depends on its caller.
NESTING_MAX = 100
#: The largest signed 64-bit integer: the limit of Redis and msgpack.
INTEGER_MAX = 2**63 - 1

_QUEUE_NAME = re.compile(r"[a-zA-Z0-9_\-.]+", re.ASCII)
_MESSAGE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_CLAIM_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PRINTABLE = re.compile(r"[\x21-\x7e]+", re.ASCII)


class Limits(msgspec.Struct, frozen=True):
    """The operator's limits; names and defaults are stock Zaqar's options."""

    max_queues_per_page: int = 20
    max_messages_per_page: int = 20
    max_messages_per_claim_or_pop: int = 20
    max_queue_metadata: int = 64 * 1024
    max_messages_post_size: int = 256 * 1024
    max_message_ttl: int = 1209600
    max_message_delay: int = 900
    max_claim_ttl: int = 43200
    max_claim_grace: int = 43200
    default_message_ttl: int = 3600
    default_message_delay: int = 0
    default_claim_ttl: int = 300
    default_claim_grace: int = 60
    client_id_uuid_safe: str = "strict"
    min_length_client_id: int = 10
    max_length_client_id: int = 36
    message_delete_with_claim_id: bool = False
    #: seconds that a claim or a list may wait for messages; not in stock
    max_wait: int = 30
    #: seconds for which a retried post is recognised at least; not in stock
    idempotency_window: int = 600
    #: the longest window that a queue may set; not in stock
    max_idempotency_window: int = 86400


#: Items of a page or a claim when the client names no limit.
DEFAULT_PAGE = 10


def queue_name(name: str) -> str:
    """Returns *name*; API: 1 to 64 ASCII letters, digits, underscores, hyphens, dots."""
    if len(name) > QUEUE_NAME_MAX:
        raise errors.BadQueue(why=f"Queue names may be at most {QUEUE_NAME_MAX} characters long.")
    if not _QUEUE_NAME.fullmatch(name):
        raise errors.BadQueue(
            why="Queue names may only contain ASCII letters, digits, underscores, dashes and dots."
        )
    return name


def is_queue_name(text: str) -> bool:
    return len(text) <= QUEUE_NAME_MAX and bool(_QUEUE_NAME.fullmatch(text))


def project_id(project: str | None) -> str:
    if project is None:
        raise errors.MissingProject
    if not project:
        raise errors.EmptyProject
    if len(project) > PROJECT_MAX:
        raise errors.BadQueue(why=f"Project ids may be at most {PROJECT_MAX} characters long.")
    return project


def client_id(client: str | None, limits: Limits) -> str:
    """Returns *client*; API: a UUID, unless the operator set client_id_uuid_safe=off."""
    if client is None:
        raise errors.MissingHeader(name="Client-ID")
    if limits.client_id_uuid_safe == "off":
        least, most = limits.min_length_client_id, limits.max_length_client_id
        if not least <= len(client) <= most:
            raise errors.BadClientId(
                why=f'The "Client-ID" header must have {least} to {most} characters.'
            )
        return client
    if not _is_uuid(client):
        raise errors.BadClientId(why='Malformed hexadecimal UUID in the "Client-ID" header.')
    return client


@functools.lru_cache(maxsize=4096)  # a client sends many requests
def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def idempotency_key(key: str) -> str:
    if not _PRINTABLE.fullmatch(key) or len(key) > IDEMPOTENCY_KEY_MAX:
        raise errors.BadRequest(
            why=f'The "Idempotency-Key" header must be 1 to {IDEMPOTENCY_KEY_MAX} '
            "printable ASCII characters without blanks."
        )
    return key


def is_message_id(text: str) -> bool:
    return bool(_MESSAGE_ID.fullmatch(text))


def is_claim_id(text: str) -> bool:
    return bool(_CLAIM_ID.fullmatch(text))


def within(field: str, value: int | None, least: int, most: int, unit: str = "") -> None:
    """Raises BadRequest unless *value* is None or in the closed range."""
    if value is not None and not least <= value <= most:
        raise errors.BadRequest(
            why=f'The value of "{field}" must be between {least} and {most}{unit}.'
        )


def limit(value: int | None, most: int) -> int:
    """Returns the size of a page: the given one, or the default."""
    if value is None:
        return min(DEFAULT_PAGE, most)
    within("limit", value, 1, most)
    return value


def message_ttl(value: int | None, limits: Limits, field: str = "ttl") -> None:
    within(field, value, TTL_MIN, limits.max_message_ttl, " seconds")


def message_delay(value: int | None, limits: Limits, field: str = "delay") -> None:
    within(field, value, 0, limits.max_message_delay, " seconds")


def claim_ttl(value: int | None, limits: Limits) -> int:
    within("ttl", value, CLAIM_TTL_MIN, limits.max_claim_ttl, " seconds")
    return limits.default_claim_ttl if value is None else value


def claim_grace(value: int | None, limits: Limits) -> int:
    within("grace", value, GRACE_MIN, limits.max_claim_grace, " seconds")
    return limits.default_claim_grace if value is None else value


def wait(value: int | None, limits: Limits) -> int:
    within("wait", value, 0, limits.max_wait, " seconds")
    return value or 0


#: Reserved attributes whose defaults are shown, in the order of the API reference.
RESERVED = (
    "_max_messages_post_size",
    "_default_message_ttl",
    "_default_message_delay",
    "_dead_letter_queue",
    "_dead_letter_queue_messages_ttl",
    "_max_claim_count",
    "_enable_encrypt_messages",
)


def queue_metadata(metadata: dict[str, Any], limits: Limits, can_encrypt: bool) -> None:
    """Raises BadRequest for reserved attributes that the API does not allow.

    Checked after creation and after every patch.  Stricter than stock, which accepts any
    value of ``_dead_letter_queue`` and fails at the first claim.
    """
    ranges = {
        "_max_messages_post_size": (1, limits.max_messages_post_size),
        "_default_message_ttl": (TTL_MIN, limits.max_message_ttl),
        "_default_message_delay": (0, limits.max_message_delay),
        "_dead_letter_queue_messages_ttl": (TTL_MIN, limits.max_message_ttl),
        "_max_claim_count": (-INTEGER_MAX, INTEGER_MAX),
        "_idempotency_window": (1, limits.max_idempotency_window),
    }
    for name, (least, most) in ranges.items():
        value = metadata.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise errors.BadRequest(why=f'The value of "{name}" must be an integer.')
        within(name, value, least, most)
    dead = metadata.get("_dead_letter_queue")
    if dead not in (None, "") and not (isinstance(dead, str) and is_queue_name(dead)):
        raise errors.BadRequest(
            why='The value of "_dead_letter_queue" must be a queue name: 1 to '
            f"{QUEUE_NAME_MAX} ASCII letters, digits, underscores, dashes and dots."
        )
    retry = metadata.get("_retry_policy")
    if retry is not None and not isinstance(retry, dict):
        raise errors.BadRequest(why='The value of "_retry_policy" must be an object.')
    encrypt = metadata.get("_enable_encrypt_messages")
    if encrypt is not None and not isinstance(encrypt, bool):
        raise errors.BadRequest(why='The value of "_enable_encrypt_messages" must be a boolean.')
    if encrypt and not can_encrypt:
        raise errors.BadRequest(
            why='"_enable_encrypt_messages" needs the option message_encryption_key, '
            "which the operator has not set."
        )
    if not _nested_within(metadata, NESTING_MAX):
        raise errors.BadRequest(why=f"Queue metadata may be nested at most {NESTING_MAX} deep.")


def _nested_within(value: dict[str, Any], most: int) -> bool:
    level: list[Any] = [value]
    for _ in range(most):
        items = (
            item for part in level for item in (part.values() if isinstance(part, dict) else part)
        )
        level = [item for item in items if isinstance(item, (dict, list))]
        if not level:
            return True
    return False
