# SPDX-License-Identifier: Apache-2.0
"""What the metadata of queues and topics may be.

The rules are those of the Zaqar v2 API; a function here raises the error that
the client gets, and its text names the field and the limit.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from zaqar_redis import errors, message_fields, retry_policies, rules

#: Messages of a topic's history: some 600 MB of one Redis, if they are small.
HISTORY_SIZE_MAX = 1_000_000
#: Seconds; the default is that of SQS.
DEDUP_WINDOW, DEDUP_WINDOW_MAX = 300, 7 * 86400

#: What may happen to a message that expires, beside its deletion.
ON_EXPIRY = ("alarm", "dead_letter")

#: What happens to a post to a full queue.
OVERFLOWS = ("reject", "drop_oldest", "dead_letter")
#: How the groups of a queue are claimed.
GROUP_MODES = ("ordered", "fair")
#: Groups of a queue that have one, a script looks for it in their list; and that of each.
GROUP_WEIGHTS_MAX, GROUP_WEIGHT_MAX = 1000, 1000
#: Messages a second: from one in a day to one in each millisecond, which the clock can tell apart.
GROUP_RATE_MIN, GROUP_RATE_MAX = 1 / 86400, 1000
#: Messages of less priority that one of a step more may overtake at most.
PRIORITY_STEP_MAX = 1_000_000
_FRACTION = 1 / 64
#: A petabyte: scripts count exactly to eight of them.
MAX_BYTES_MAX = 10**15
#: What may be paused.
PAUSES = ("posts", "claims", "all")

_CHOICES = {
    "_on_expiry": ON_EXPIRY,
    "_overflow": OVERFLOWS,
    "_paused": PAUSES,
    "_group_mode": GROUP_MODES,
}

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
#: Those of topics.
RESERVED_OF_TOPICS = RESERVED[:3]


def queue_metadata(metadata: dict[str, Any], limits: rules.Limits, can_encrypt: bool) -> None:
    """Raises BadRequest for reserved attributes that the API does not allow.

    Checked after creation and after every patch.  Stricter than stock, which accepts any
    value of ``_dead_letter_queue`` and fails at the first claim, and negative values of
    ``_max_claim_count``, with which every message is a dead letter at its first claim.
    """
    ranges = {
        "_max_messages_post_size": (1, limits.max_messages_post_size),
        "_default_message_ttl": (rules.TTL_MIN, limits.max_message_ttl),
        "_default_message_delay": (0, limits.max_message_delay),
        "_dead_letter_queue_messages_ttl": (rules.TTL_MIN, limits.max_message_ttl),
        "_max_claim_count": (0, rules.INTEGER_MAX),
        "_idempotency_window": (1, limits.max_idempotency_window),
        "_dedup_window": (1, DEDUP_WINDOW_MAX),
        "_min_claim_ttl": (1, rules.CLAIM_TTL_MIN),
        "_max_messages": (1, rules.INTEGER_MAX),
        "_group_concurrency": (1, rules.INTEGER_MAX),
        "_max_bytes": (1, MAX_BYTES_MAX),
    }
    for name, (least, most) in ranges.items():
        _check_integer(metadata, name, least, most)
    dead = metadata.get("_dead_letter_queue")
    if dead not in (None, "") and not (isinstance(dead, str) and rules.is_queue_name(dead)):
        raise errors.BadRequest(
            why='The value of "_dead_letter_queue" must be a queue name: 1 to '
            f"{rules.QUEUE_NAME_MAX} ASCII letters, digits, underscores, dashes and dots."
        )
    for name, choices in _CHOICES.items():
        value = metadata.get(name)
        if value is not None and value not in choices:
            raise errors.BadRequest(
                why=f'The value of "{name}" must be one of {", ".join(choices)}.'
            )
        if value == "dead_letter" and not dead:
            raise errors.BadRequest(
                why=f'"{name}": "dead_letter" needs "_dead_letter_queue": set it, too.'
            )
    is_limited = {metadata.get("_max_messages"), metadata.get("_max_bytes")} != {None}
    if metadata.get("_overflow") is not None and not is_limited:
        raise errors.BadRequest(why='"_overflow" needs "_max_messages" or "_max_bytes": set one.')
    priorities = metadata.get("_priorities")
    if metadata.get("_overflow") not in (None, "reject") and not may_drop(metadata):
        raise errors.BadRequest(
            why='"_overflow" must be reject in a queue with "_group_mode", or with a number of '
            '"_priorities": its oldest message is not the least important one.'
        )
    if priorities is not None and not priority_step(priorities):
        raise errors.BadRequest(
            why='The value of "_priorities" must be strict, or an integer from 1 to '
            f"{PRIORITY_STEP_MAX}: how many messages one of the next priority overtakes at most."
        )
    is_fair = metadata.get("_group_mode") == "fair"
    for name in ("_group_concurrency", "_group_rate", "_group_weights"):
        if metadata.get(name) is not None and not is_fair:
            raise errors.BadRequest(why=f'"{name}" needs "_group_mode": "fair": set it, too.')
    if is_fair and priorities is not None:
        raise errors.BadRequest(
            why='A queue with "_group_mode": "fair" cannot have "_priorities": give its groups '
            '"_group_weights".'
        )
    rate = metadata.get("_group_rate")
    if rate is not None and not is_group_rate(rate):
        raise errors.BadRequest(
            why='The value of "_group_rate" must be a number from 1/86400 to '
            f"{GROUP_RATE_MAX}: messages a second."
        )
    group_weights(metadata.get("_group_weights"))
    retry_policies.retry_policy(metadata.get("_retry_policy"))
    retry_policies.redelivery_delay(metadata.get("_redelivery_delay"), limits.max_message_delay)
    for name in ("_enable_encrypt_messages", "_content_dedup"):
        if not isinstance(metadata.get(name), bool | None):
            raise errors.BadRequest(why=f'The value of "{name}" must be a boolean.')
    if metadata.get("_enable_encrypt_messages") and not can_encrypt:
        raise errors.BadRequest(
            why='"_enable_encrypt_messages" needs the option [transport] '
            "message_encryption_key, which the operator has not set."
        )
    if not rules.nested_within(metadata, rules.NESTING_MAX):
        raise errors.BadRequest(
            why=f"Queue metadata may be nested at most {rules.NESTING_MAX} deep."
        )


def topic_metadata(metadata: dict[str, Any], limits: rules.Limits, can_encrypt: bool) -> None:
    """Raises BadRequest for reserved attributes that topics cannot have."""
    queue_metadata(metadata, limits, can_encrypt)
    _check_integer(metadata, "_history_size", 1, HISTORY_SIZE_MAX)


def is_group_rate(rate: Any) -> TypeGuard[float]:
    """Returns whether so many messages a second may be taken of a group."""
    return type(rate) in (int, float) and GROUP_RATE_MIN <= rate <= GROUP_RATE_MAX


def group_weights(weights: Any) -> dict[str, int]:
    """Returns how many turns groups have to one of others.  Raises BadRequest."""
    if weights is None:
        return {}
    if not isinstance(weights, dict) or len(weights) > GROUP_WEIGHTS_MAX:
        raise errors.BadRequest(
            why=f'The value of "_group_weights" must be an object of up to {GROUP_WEIGHTS_MAX} '
            "groups."
        )
    for name, weight in weights.items():
        if not message_fields.is_text(name, message_fields.GROUP_MAX):
            raise errors.BadRequest(
                why='The names in "_group_weights" must be groups: 1 to '
                f"{message_fields.GROUP_MAX} bytes of printable text."
            )
        if type(weight) is not int or not 1 <= weight <= GROUP_WEIGHT_MAX:
            raise errors.BadRequest(
                why=f'The value of "{name}" in "_group_weights" must be an integer from 1 to '
                f"{GROUP_WEIGHT_MAX}."
            )
    return weights


def may_drop(metadata: dict[str, Any]) -> bool:
    """Returns whether the messages in front of a full queue are the least important ones."""
    return not metadata.get("_group_mode") and metadata.get("_priorities") in (None, "strict")


def priority_step(priorities: object) -> float:
    """Returns how many ranks a step of priority is worth; 0: the queue has no priorities.

    What exceeds the number of messages that it overtakes, a fraction, decides between two ranks
    that it makes equal, and is less than a rank for all steps together.
    """
    if priorities == "strict":
        return 2**48  # more than a queue ever gives
    if type(priorities) is not int or not 1 <= priorities <= PRIORITY_STEP_MAX:
        return 0
    return priorities + _FRACTION


def _check_integer(metadata: dict[str, Any], name: str, least: int, most: int) -> None:
    value = metadata.get(name)
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise errors.BadRequest(why=f'The value of "{name}" must be an integer.')
    rules.within(name, value, least, most)
