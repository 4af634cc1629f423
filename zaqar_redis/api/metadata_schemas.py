# SPDX-License-Identifier: Apache-2.0
"""The metadata of queues and topics: any object, with attributes that the service uses."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import msgspec

from zaqar_redis import metadata_rules, retry_policies, rules
from zaqar_redis.api.descriptions import DELAY, TTL, about


def _attribute(kind: str, text: str, **keywords: Any) -> dict[str, Any]:
    return {"type": [kind, "null"], "description": text, **keywords}


_RESERVED = {
    "_max_messages_post_size": _attribute(
        "integer",
        "Bytes of one post, at most.",
        minimum=1,
        maximum="limits.max_messages_post_size",
        default="limits.max_messages_post_size",
    ),
    "_default_message_ttl": _attribute(
        "integer",
        "Seconds, for messages that name no TTL.",
        **TTL,
        default="limits.default_message_ttl",
    ),
    "_default_message_delay": _attribute(
        "integer",
        "Seconds, for messages that name no delay.",
        **DELAY,
        default="limits.default_message_delay",
    ),
    "_dead_letter_queue": _attribute(
        "string",
        "Gets messages that were claimed `_max_claim_count` times, and once more.",
        maxLength=rules.QUEUE_NAME_MAX,
        pattern=rules.QUEUE_NAME_PATTERN,
    ),
    "_dead_letter_queue_messages_ttl": _attribute(
        "integer", "Seconds, in the dead-letter queue; else messages keep their TTL.", **TTL
    ),
    "_max_claim_count": _attribute(
        "integer",
        "How often a message may be claimed, with a dead-letter queue; 0: any number of times.",
        minimum=0,
        maximum=rules.INTEGER_MAX,
    ),
    "_enable_encrypt_messages": _attribute(
        "boolean", "Encrypt bodies in the store; needs a key of the operator's.", default=False
    ),
}
_WINDOW = _attribute(
    "integer",
    "Seconds for which an `Idempotency-Key` is known at least; twice that at most.",
    minimum=1,
    maximum="limits.max_idempotency_window",
)
_HISTORY = _attribute(
    "integer",
    "Messages that are kept, at most: older ones are deleted.  Else as many as live.",
    minimum=1,
    maximum=metadata_rules.HISTORY_SIZE_MAX,
)
_ON_EXPIRY = _attribute(
    "string",
    "What happens when messages expire: an alarm, or they go to the dead-letter queue.",
    enum=[*metadata_rules.ON_EXPIRY, None],
)
_POLICY_DEFAULTS = msgspec.to_builtins(retry_policies.DeliveryRetryPolicy())
#: Of a queue, and an option of its subscriptions.
RETRY_POLICY = _attribute(
    "object",
    "When an attempt to deliver to a subscriber follows another.",
    properties={
        name: {"type": ["integer", "null"], "minimum": 0, "maximum": most}
        for name, most in retry_policies.BOUNDS.items()
    }
    | {
        "retry_backoff_function": {"enum": [*get_args(retry_policies.BackoffFunction), None]},
        "ignore_subscription_override": {"type": ["boolean", "null"]},
    },
    default=_POLICY_DEFAULTS,
)
_MIN_CLAIM_TTL = _attribute(
    "integer",
    "Seconds that a claim may last, at least.",
    minimum=1,
    maximum=rules.CLAIM_TTL_MIN,
    default=rules.CLAIM_TTL_MIN,
)
_REDELIVERY_DELAY = {
    "description": "Seconds until a message can be claimed again that was released, or whose claim "
    "has ended: as a number, or by how often it was claimed.",
    "type": ["integer", "object", "null"],
    **DELAY,
    "required": ["minimum_delay"],
    "properties": {
        "minimum_delay": {"type": "integer", "minimum": 1, "maximum": DELAY["maximum"]},
        "maximum_delay": _attribute("integer", "At most.", minimum=1, maximum=DELAY["maximum"]),
        "backoff_function": _attribute(
            "string",
            "How the delay grows with each claim.",
            enum=[*get_args(retry_policies.RedeliveryFunction), None],
            default="fixed",
        ),
        "jitter": _attribute(
            "number",
            "Share of a delay that chance may take off.",
            minimum=0,
            maximum=1,
            default=0,
        ),
    },
}
_CONTENT_DEDUP = _attribute(
    "boolean", "Whether its body identifies a message without a `dedup_id`.", default=False
)
_DEDUP_WINDOW = _attribute(
    "integer",
    "Seconds for which a message that is posted again is a duplicate.",
    minimum=1,
    maximum=metadata_rules.DEDUP_WINDOW_MAX,
    default=metadata_rules.DEDUP_WINDOW,
)
_MAX_MESSAGES = _attribute(
    "integer", "Messages that the queue may have.  Else any number.", minimum=1
)
_MAX_BYTES = _attribute(
    "integer",
    "Bytes that the messages of the queue may have as they are stored.  Else any number.",
    minimum=1,
    maximum=metadata_rules.MAX_BYTES_MAX,
)
_OVERFLOW = _attribute(
    "string",
    "What happens to a post to a queue with `_max_messages` or `_max_bytes`: it is refused, or the "
    "oldest messages are deleted, or they go to the dead-letter queue.",
    enum=[*metadata_rules.OVERFLOWS, None],
    default=metadata_rules.OVERFLOWS[0],
)
_PAUSED = _attribute(
    "string",
    "What is paused: posts are refused, claims and pops get nothing.",
    enum=[*metadata_rules.PAUSES, None],
)
_GROUP_MODE = _attribute(
    "string",
    "How messages with a `group` are claimed: in order, and none while another of the group is "
    "held, but for the claim that holds it; or groups take turns.  It can be changed while the "
    "queue has no messages.",
    enum=[*metadata_rules.GROUP_MODES, None],
)
_GROUP_CONCURRENCY = _attribute(
    "integer",
    "Messages of a group that are claimed at a time, where groups take turns.  Else any number.",
    minimum=1,
)
_GROUP_RATE = _attribute(
    "number",
    "Messages of a group that are claimed in a second, where groups take turns.  Else any number.",
    minimum=metadata_rules.GROUP_RATE_MIN,
    maximum=metadata_rules.GROUP_RATE_MAX,
)
_GROUP_WEIGHTS = _attribute(
    "object",
    "How many turns a group has to one of the others, where they take turns.",
    maxProperties=metadata_rules.GROUP_WEIGHTS_MAX,
    additionalProperties={
        "type": "integer",
        "minimum": 1,
        "maximum": metadata_rules.GROUP_WEIGHT_MAX,
    },
)
_PRIORITIES = {
    "description": "Messages of the highest `priority` are claimed first; with a number, one "
    "overtakes so many messages at most for each step of priority that it has more.",
    "type": ["string", "integer", "null"],
    "pattern": "^strict$",
    "minimum": 1,
    "maximum": metadata_rules.PRIORITY_STEP_MAX,
}
#: Those that the service uses, by name.
ATTRIBUTES = _RESERVED | {
    "_idempotency_window": _WINDOW,
    "_content_dedup": _CONTENT_DEDUP,
    "_dedup_window": _DEDUP_WINDOW,
    "_on_expiry": _ON_EXPIRY,
    "_retry_policy": RETRY_POLICY,
    "_min_claim_ttl": _MIN_CLAIM_TTL,
    "_redelivery_delay": _REDELIVERY_DELAY,
    "_max_messages": _MAX_MESSAGES,
    "_max_bytes": _MAX_BYTES,
    "_overflow": _OVERFLOW,
    "_paused": _PAUSED,
    "_group_mode": _GROUP_MODE,
    "_group_concurrency": _GROUP_CONCURRENCY,
    "_group_rate": _GROUP_RATE,
    "_group_weights": _GROUP_WEIGHTS,
    "_priorities": _PRIORITIES,
}
_OF_QUEUES = (
    *("_dead_letter_queue", "_dead_letter_queue_messages_ttl", "_max_claim_count"),
    *("_on_expiry", "_min_claim_ttl", "_redelivery_delay", "_max_messages", "_overflow", "_paused"),
    *("_max_bytes", "_group_mode", "_group_concurrency", "_group_rate", "_group_weights"),
    "_priorities",
)
#: Those of topics that have an effect.
TOPIC_ATTRIBUTES = {name: each for name, each in ATTRIBUTES.items() if name not in _OF_QUEUES} | {
    "_history_size": _HISTORY
}

Metadata = Annotated[
    dict[str, Any],
    about(
        "Anything, and these attributes.  null is as good as absent.",
        properties=ATTRIBUTES,
    ),
]
ShownMetadata = Annotated[
    dict[str, Any],
    about(
        "Reserved attributes have their defaults; those without one are there once they are set.",
        required=[name for name, each in _RESERVED.items() if "default" in each],
        properties={name: {"type": each["type"][0]} for name, each in _RESERVED.items()},
    ),
]
TopicMetadata = Annotated[
    dict[str, Any],
    about(
        "Anything, and these attributes.  null is as good as absent.",
        properties=ATTRIBUTES | {"_history_size": _HISTORY},
    ),
]
ShownTopicMetadata = Annotated[
    dict[str, Any],
    about(
        "The reserved attributes have their defaults.",
        required=metadata_rules.RESERVED_OF_TOPICS,
        properties={name: {"type": "integer"} for name in metadata_rules.RESERVED_OF_TOPICS},
    ),
]
_VALUED = {
    "if": {"properties": {"op": {"enum": ["add", "replace"]}}},
    "then": {"required": ["value"]},
}
Patches = Annotated[
    Any,
    about(
        "In the path, `~1` is a slash and `~0` a tilde.",
        type="array",
        items={
            "type": "object",
            "required": ["op", "path"],
            "properties": {
                "op": {"enum": ["add", "replace", "remove"]},
                "path": {"type": "string", "pattern": "^/metadata/[^/ ]+$"},
                "value": {},
            },
            **_VALUED,
        },
    ),
]
