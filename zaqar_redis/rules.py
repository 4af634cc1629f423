# SPDX-License-Identifier: Apache-2.0
"""All name patterns, ranges and limits.

The rules are those of the Zaqar v2 API; a function here raises the error that
the client gets, and its text names the field and the limit.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from zaqar_redis import errors, message_fields
from zaqar_redis.records import Attributes

QUEUE_NAME_MAX = 64
#: A topic is stored as the queue of this prefix and its name: no queue of a client has a colon.
TOPIC_PREFIX = "topic:"
PROJECT_MAX = 256
KEY_USER_MAX = 255
TTL_MIN = 60
#: Attributes of a message, but for `traceparent`: what SQS allows.
ATTRIBUTES_MAX = 10
CLAIM_TTL_MIN = 60
_CLAIM_SECONDS = (
    f' seconds, and at least the "_min_claim_ttl" of the queue, {CLAIM_TTL_MIN} unless set'
)
GRACE_MIN = 60
SUBSCRIPTION_TTL_MIN = 60
#: API: of a subscription, the last time that Python has, in the year 9999.
_SUBSCRIPTION_END_MAX = datetime.max
#: API: of a pool.
URI_MAX = 255
WEIGHT_MAX = 2**32 - 1
#: No known client library creates longer keys.
IDEMPOTENCY_KEY_MAX = 255
#: Characters of a user, role, client id or topic of the routing service: as many as of a channel.
ROUTING_NAME_MAX = 255
#: Levels of objects and arrays in metadata: what was written must be readable
#: everywhere, and how deep a decoder can go depends on its caller.
NESTING_MAX = 100
#: The largest signed 64-bit integer: the limit of Redis and msgpack.
INTEGER_MAX = 2**63 - 1

#: Marks the fields of settings whose values are not shown.
SECRET = Meta(extra={"secret": True})


def renamed_from(group: str, option: str) -> Meta:
    """Marks the field of settings whose option had another name: that is taken for one release."""
    return Meta(extra={"renamed_from": (group, option)})


#: Lua passes a list to Redis as the arguments of one call: at most some 8000 values.
_PAGE = Meta(ge=1, le=1000)
_LENGTH = Meta(ge=1, le=1024)
_YEARS = 100 * 365 * 86400

QUEUE_NAME_PATTERN = r"^[a-zA-Z0-9_.\-]+$"
_QUEUE_NAME = re.compile(QUEUE_NAME_PATTERN, re.ASCII)
_MESSAGE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_CLAIM_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_ATTRIBUTE = re.compile(r"[A-Za-z0-9_.-]{1,256}", re.ASCII)
#: A surrogate of JSON without its second half; decoders speak of the end of the data instead.
_LONE_SURROGATE = re.compile(rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})(?!\\u[dD][c-fC-F])")
_PRINTABLE = re.compile(r"[\x21-\x7e]+", re.ASCII)


class Limits(msgspec.Struct, frozen=True):
    """The operator's limits; names and defaults are stock Zaqar's options."""

    max_queues_per_page: Annotated[int, _PAGE, "Maximum number of queues in one listing."] = 20
    max_messages_per_page: Annotated[
        int, _PAGE, "Maximum number of messages in one listing, and of ids in one request."
    ] = 20
    max_messages_per_claim_or_pop: Annotated[
        int, _PAGE, "Maximum number of messages in one claim or one pop."
    ] = 20
    max_subscriptions_per_page: Annotated[
        int, _PAGE, "Maximum number of subscriptions in one listing."
    ] = 20
    max_subscriptions: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        "Maximum number of subscriptions of one queue or topic. Who delivers for it has all of "
        "them in memory: 10 000 take 30 MB, and their options.",
    ] = 20_000
    max_queue_metadata: Annotated[
        int, Meta(ge=2, le=2**30), "Maximum size of a queue's metadata, in bytes."
    ] = 64 * 1024
    max_messages_post_size: Annotated[
        int, Meta(ge=1, le=2**29), "Maximum size of one request that posts messages, in bytes."
    ] = 256 * 1024
    max_message_ttl: Annotated[
        int, Meta(ge=TTL_MIN, le=_YEARS), "Maximum TTL of a message, in seconds."
    ] = 1209600
    max_message_delay: Annotated[
        int, Meta(ge=0, le=_YEARS), "Maximum delay of a message, in seconds."
    ] = 900
    max_claim_ttl: Annotated[
        int, Meta(ge=CLAIM_TTL_MIN, le=_YEARS), "Maximum TTL of a claim, in seconds."
    ] = 43200
    max_claim_grace: Annotated[
        int,
        Meta(ge=GRACE_MIN, le=_YEARS),
        "Maximum grace of the messages of a claim, in seconds.",
    ] = 43200
    default_message_ttl: Annotated[
        int, Meta(ge=TTL_MIN, le=_YEARS), "TTL of messages posted without one, in seconds."
    ] = 3600
    default_message_delay: Annotated[
        int, Meta(ge=0, le=_YEARS), "Delay shown for queues that set none, in seconds."
    ] = 0
    default_claim_ttl: Annotated[
        int, Meta(ge=CLAIM_TTL_MIN, le=_YEARS), "TTL of claims created without one, in seconds."
    ] = 300
    default_claim_grace: Annotated[
        int, Meta(ge=GRACE_MIN, le=_YEARS), "Grace of claims created without one, in seconds."
    ] = 60
    default_subscription_ttl: Annotated[
        int,
        Meta(ge=SUBSCRIPTION_TTL_MIN, le=_YEARS),
        "TTL of subscriptions created without one, in seconds.",
    ] = 3600
    client_id_uuid_safe: Annotated[
        Literal["strict", "off"],
        "Whether the Client-ID header must be a UUID (strict), or only have a length within "
        "the two limits below (off).",
    ] = "strict"
    min_length_client_id: Annotated[
        int, _LENGTH, "Minimum length of a Client-ID when client_id_uuid_safe is off."
    ] = 10
    max_length_client_id: Annotated[
        int, _LENGTH, "Maximum length of a Client-ID when client_id_uuid_safe is off."
    ] = 36
    message_delete_with_claim_id: Annotated[
        bool, "Whether a request that deletes messages by ids must also name their claims."
    ] = False
    # Those below are not in stock Zaqar.
    max_wait: Annotated[
        int,
        Meta(ge=0, le=3600),
        "Maximum time that a claim or a listing may wait for messages, in seconds.",
    ] = 30
    idempotency_window: Annotated[
        int,
        Meta(ge=1, le=30 * 86400),
        "Minimum number of seconds that a retried post is recognised by its Idempotency-Key; the "
        "maximum is twice that. A queue's _idempotency_window overrides it.",
    ] = 600
    max_idempotency_window: Annotated[
        int,
        Meta(ge=1, le=30 * 86400),
        "Maximum _idempotency_window of a queue, in seconds. Each idempotency record takes some "
        "100 bytes of Redis' memory.",
    ] = 86400


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


def topic(name: str) -> str:
    """Returns the queue that the topic *name* is stored as; API: it is named as queues are.

    Raises BadTopic.
    """
    if not is_queue_name(name):
        raise errors.BadTopic(
            why=f"Topic names must have 1 to {QUEUE_NAME_MAX} ASCII letters, digits, underscores, "
            "dashes and dots."
        )
    return TOPIC_PREFIX + name


def is_topic(queue: str) -> bool:
    """Returns whether the queue is a topic."""
    return queue.startswith(TOPIC_PREFIX)


def described(queue: str) -> str:
    """Returns how errors name a queue or topic: *queue q* or *topic t*."""
    return f"topic {queue.removeprefix(TOPIC_PREFIX)}" if is_topic(queue) else f"queue {queue}"


def path_of(queue: str) -> str:
    """Returns the path of a queue in the API, or of the topic that it is."""
    if is_topic(queue):
        return f"/v2/topics/{queue.removeprefix(TOPIC_PREFIX)}"
    return f"/v2/queues/{queue}"


def key_user(name: str) -> str:
    """Returns the name of the person or program that uses an access key."""
    if not (0 < len(name) <= KEY_USER_MAX and name.isprintable()):
        raise errors.BadRequest(
            why=f"The user of a key must have 1 to {KEY_USER_MAX} printable characters."
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
    """Returns *client*, of at most 36 or max_length_client_id characters.

    API: a UUID, whose spellings become one, unless the operator set client_id_uuid_safe=off.
    """
    if client is None:
        raise errors.MissingHeader(name="Client-ID")
    if limits.client_id_uuid_safe == "off":
        least, most = limits.min_length_client_id, limits.max_length_client_id
        if not least <= len(client) <= most:
            raise errors.BadClientId(
                why=f'The "Client-ID" header must have {least} to {most} characters.'
            )
        return client
    return _uuid(client)


@functools.lru_cache(maxsize=4096)  # a client sends many requests
def _uuid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        why = 'Malformed hexadecimal UUID in the "Client-ID" header.'
        raise errors.BadClientId(why=why) from None


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


def nested_within(value: Mapping[str, Any], most: int) -> bool:
    """Tells whether *value* has at most that many levels of objects and arrays."""
    level: list[Any] = [value]
    for _ in range(most):
        items = (
            item for part in level for item in (part.values() if isinstance(part, dict) else part)
        )
        level = [item for item in items if isinstance(item, (dict, list))]
        if not level:
            return True
    return False


def limit(value: int | None, most: int) -> int:
    """Returns the size of a page: the given one, or the default."""
    if value is None:
        return min(DEFAULT_PAGE, most)
    within("limit", value, 1, most)
    return value


def number_of_ids(name: str, ids: Sequence[str], limits: Limits) -> None:
    most = limits.max_messages_per_page
    if not 1 <= len(ids) <= most:
        raise errors.BadRequest(why=f'"{name}" must hold 1 to {most} ids.')


def message_ttl(value: int | None, limits: Limits, field: str = "ttl") -> None:
    within(field, value, TTL_MIN, limits.max_message_ttl, " seconds")


def message_attributes(attributes: Attributes) -> None:
    """Raises BadRequest.  Their bytes count as those of the request do."""
    message_fields.check(attributes)
    number = len(attributes.keys() - {"traceparent", *message_fields.FIELDS})
    if number > ATTRIBUTES_MAX:
        raise errors.BadRequest(
            why=f'"attributes" has {number} names, and may have {ATTRIBUTES_MAX}.'
        )
    for name, value in attributes.items():
        if not _ATTRIBUTE.fullmatch(name):
            raise errors.BadRequest(
                why=f'"attributes": the name {name[:64]!r} must have 1 to 256 letters, digits or '
                "_ . -"
            )
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise errors.BadRequest(why=f'"attributes": {name} must be a number of 64 bits.')


def message_delay(value: int | None, limits: Limits) -> None:
    within("delay", value, 0, limits.max_message_delay, " seconds")


def claim_ttl(value: int | None, limits: Limits) -> int:
    """Returns the seconds that a claim lasts; the store refuses those that its queue forbids."""
    within("ttl", value, 1, limits.max_claim_ttl, _CLAIM_SECONDS)
    return limits.default_claim_ttl if value is None else value


def claim_grace(value: int | None, limits: Limits) -> int:
    within("grace", value, GRACE_MIN, limits.max_claim_grace, " seconds")
    return limits.default_claim_grace if value is None else value


def subscription_ttl(value: int | None, limits: Limits, now: float) -> int:
    """Returns the seconds that a subscription lasts; *now*: seconds since the epoch."""
    if value is None:
        return limits.default_subscription_ttl
    if value < SUBSCRIPTION_TTL_MIN:
        raise errors.BadRequest(
            why=f"The TTL for a subscription must be at least {SUBSCRIPTION_TTL_MIN} seconds long."
        )
    if value > _SUBSCRIPTION_END_MAX.replace(tzinfo=UTC).timestamp() - now:
        raise errors.BadRequest(
            why="The TTL seconds for a subscription plus current time must be less than "
            f"{_SUBSCRIPTION_END_MAX}."
        )
    return value


def subscriber_scheme(uri: str, schemes: Collection[str]) -> str:
    """Returns the scheme of a URI; API: one that messages can be sent to."""
    scheme = uri.partition(":")[0]
    if scheme not in schemes and scheme.lower() in schemes:
        raise errors.BadRequest(
            why=f'The URI in "subscriber" must begin with {scheme.lower()}: in lower case.'
        )
    if scheme not in schemes:
        raise errors.BadRequest(
            why="The subscriber type of subscription must be supported in the list "
            f"{sorted(schemes)}."
        )
    if not _PRINTABLE.fullmatch(uri):
        raise errors.BadRequest(
            why='The URI in "subscriber" must be ASCII without spaces and control characters: '
            "others are written as %20 and so on, and a host in its form xn--..."
        )
    return scheme


def is_own_subscriber(uri: str) -> bool:
    """Returns whether a subscriber is of the project itself: there is nobody who can confirm."""
    return uri.startswith(("queue:", TOPIC_PREFIX, "channel:"))


def json_problem(error: Exception, data: bytes) -> str:
    """Returns what is wrong with a document that is no JSON; *error*: of the decoder."""
    if (lone := _LONE_SURROGATE.search(data)) is not None:
        return f"{lone[1].decode()} is half of a surrogate pair, and no character"
    return str(error)


def wait(value: int | None, limits: Limits) -> int:
    within("wait", value, 0, limits.max_wait, " seconds")
    return value or 0
