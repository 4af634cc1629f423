# SPDX-License-Identifier: Apache-2.0
"""The shapes of the JSON documents of subscriptions."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from msgspec import UNSET, Struct, UnsetType

from zaqar_redis import rules
from zaqar_redis.api.descriptions import about
from zaqar_redis.api.metadata_schemas import RETRY_POLICY
from zaqar_redis.api.queries import Marker
from zaqar_redis.api.schemas import Count, Document, Links
from zaqar_redis.service import subscription_options
from zaqar_redis.service.replays import HISTORY_MAX

_TTL = {"minimum": rules.SUBSCRIPTION_TTL_MIN}
_Uri = Annotated[
    str, about("URI of a scheme that this service delivers to, e.g. https.", minLength=1)
]
_TEXT = {"type": ["string", "null"]}
#: Those that the service checks, by name.
OPTIONS: dict[str, Any] = {
    "filter": {
        "type": ["object", "null"],
        "description": "Which messages are delivered; else all.",
    },
    "format": {
        "enum": [*get_args(subscription_options.Format), None],
        "description": "How a message is written; else zaqar.",
    },
    "batch": {
        "type": ["integer", "null"],
        "minimum": 1,
        "maximum": subscription_options.BATCH_MAX,
        "description": "Messages in one request, at most; else 1.",
    },
    "ordered": {
        "type": ["boolean", "null"],
        "description": "Whether a message waits for the one before it.",
    },
    "concurrency": {
        "type": ["integer", "null"],
        "minimum": 1,
        "maximum": subscription_options.CONCURRENCY_MAX,
        "description": "Requests at a time, at most; else 8.",
    },
    "rate": {
        "type": ["number", "null"],
        "minimum": 0,
        "maximum": subscription_options.RATE_MAX,
        "description": f"Messages a second, {subscription_options.RATE_MIN} at least; 0: any.",
    },
    "timeout": {
        "type": ["number", "null"],
        "minimum": subscription_options.TIMEOUT_MIN,
        "maximum": subscription_options.TIMEOUT_MAX,
        "description": "Seconds for an attempt; else 10.",
    },
    "dead_letter_queue": {
        "type": ["string", "null"],
        "pattern": rules.QUEUE_NAME_PATTERN,
        "maxLength": rules.QUEUE_NAME_MAX,
        "description": "Gets the messages that are given up.",
    },
    "secrets": {
        "type": ["array", "null"],
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": subscription_options.SECRETS_MAX,
        "description": "Keys that sign requests, the newest first: `whsec_` and base64.",
    },
    "post_headers": {
        "type": ["object", "null"],
        "additionalProperties": {"type": "string"},
        "description": "Headers of a webhook's requests.",
    },
    "post_data": {**_TEXT, "description": "Body of a webhook's requests, as stock Zaqar has it."},
    "from": {**_TEXT, "description": "Sender of mails."},
    "subject": {**_TEXT, "description": "Subject of mails."},
    "trust_id": {**_TEXT, "description": "Keystone's trust that deliveries use."},
    "_retry_policy": RETRY_POLICY,
}
_OPTIONS = "What the kind of subscriber takes; unknown ones are kept."


_Detailed = Annotated[bool | None, about("How deliveries go, and generated secrets as `***`.")]


class SubscriptionQuery(Struct, frozen=True, kw_only=True):
    detailed: _Detailed = None


class SubscriptionListQuery(Struct, frozen=True, kw_only=True):
    detailed: _Detailed = None
    marker: Marker = None
    limit: Annotated[
        int | None,
        about(
            f"At most this many; else {rules.DEFAULT_PAGE}.",
            minimum=1,
            maximum="limits.max_subscriptions_per_page",
        ),
    ] = None


class SubscriptionIn(Struct):
    subscriber: _Uri
    ttl: Annotated[
        int | None,
        about("Seconds until it ends; else limits.default_subscription_ttl.", **_TTL),
    ] = None
    options: Annotated[dict[str, Any] | None, about(_OPTIONS, properties=OPTIONS)] = None
    paused: Annotated[bool | None, about("Whether its messages wait.")] = None


class SubscriptionChangeIn(Struct):
    """null stands for what stays: stock's clients send it for what is not given."""

    subscriber: _Uri | None = None
    ttl: Annotated[int | None, about("Seconds from now until it ends.", **_TTL)] = None
    options: Annotated[
        dict[str, Any] | None,
        about(
            "In the place of all that it has, except `secrets` that are not given.",
            properties=OPTIONS,
        ),
    ] = None
    paused: Annotated[bool | None, about("Whether its messages wait.")] = None


class ConfirmationIn(Struct):
    confirmed: bool


class ReplayIn(Struct):
    history: Annotated[
        bool,
        about(
            "The history of the topic, as far as the filter wants it, instead of what was given up."
        ),
    ] = False
    after: Annotated[
        str | UnsetType, about("With `history`: id of the message behind which it begins.")
    ] = UNSET
    limit: Annotated[
        int | UnsetType,
        about(
            f"With `history`: messages that are read; else {HISTORY_MAX}.",
            minimum=1,
            maximum=HISTORY_MAX,
        ),
    ] = UNSET


class CreatedSubscriptionOut(Document):
    subscription_id: str
    secret: Annotated[
        str | UnsetType,
        about("Signs what a webhook gets, if the request has named none.  It is shown once."),
    ] = UNSET


class DeliveryFailureOut(Document):
    at: Annotated[str, about(format="date-time")]
    status: Annotated[int, about("Of the answer; 0: there was none.", minimum=0)]
    error: str


class DeliveriesOut(Document):
    delivered: Count
    failed: Annotated[int, about("Given up.", minimum=0)]
    retried: Annotated[int, about("Attempts that failed and were made again.", minimum=0)]
    pending: Annotated[int, about("They wait, or are tried again.", minimum=0)]
    last_failure: Annotated[DeliveryFailureOut | None, about("null: there was none.")]
    failing_since: Annotated[
        str | None,
        about("The first failure, if every attempt since then has failed; else null."),
    ]


class ReplayOut(Document):
    replayed: Annotated[int, about("Deliveries that are to be made again.", minimum=0)]
    marker: Annotated[
        str | UnsetType, about("The `after` of the next request; absent: there is no more.")
    ] = UNSET


class SubscriptionTestOut(Document):
    outcome: Annotated[str, about("delivered, retry, refused or gone.")]
    status: Annotated[int, about("Of the answer; 0: there was none.", minimum=0)]
    error: Annotated[str, about("What went wrong; empty: nothing.")]
    seconds: Annotated[float, about("That the attempt took.", minimum=0)]
    answer: Annotated[str, about("The beginning of the answer's text.")]


class SubscriptionOut(Document):
    id: str
    source: Annotated[str, about("The queue or topic.")]
    subscriber: str
    ttl: Annotated[int, about("Seconds.", minimum=1)]
    age: Annotated[int, about("Seconds since its TTL was set.", minimum=0)]
    options: Annotated[
        dict[str, Any],
        about(
            "As they were given, with `***` for each secret; with `detailed` also that of a secret "
            "that the service has made."
        ),
    ]
    confirmed: bool
    paused: Annotated[bool | UnsetType, about("Absent if it is not.")] = UNSET
    deliveries: Annotated[DeliveriesOut | UnsetType, about("With `detailed`.")] = UNSET


class SubscriptionPageOut(Document):
    subscriptions: list[SubscriptionOut]
    links: Links
