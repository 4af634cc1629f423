# SPDX-License-Identifier: Apache-2.0
"""What is where in stock Zaqar's Redis store, and how it is read.

==================================== ====== ====================================
 key                                  type   holds
==================================== ====== ====================================
``<project>.queues_set``              zset   ``<project>.<queue>`` of each
``<project>.<queue>``                 hash   m: metadata (msgpack), t: created
``<project>.<queue>.messages``        zset   message id by rank
``<message id>``                      hash   a message; b: its body (msgpack)
``<project>.<queue>.claims``          zset   claim id by expiry
``<claim id>``                        hash   t: ttl, e: expires
``<project>.<queue>.subscriptions``   zset   subscription ids
``<subscription id>``                 hash   a subscription; o: options (msgpack)
``msgset_index``                      zset   every ``<project>.<queue>.messages``
==================================== ====== ====================================

Times are whole seconds.  No project at all is the empty text.  Names may hold
dots, so a key is only ever made from its parts, never taken apart at a dot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis import rules
from zaqar_redis.records import Queue, Record

#: A hash's fields as Redis answers them.
Values = Sequence[bytes | None]

_LIST = ".queues_set"
#: Every project's list, for SCAN.
LISTS = f"*{_LIST}"
#: There is one in every store that holds messages of stock's, unless it is a pool.
INDEX = "msgset_index"

QUEUE_FIELDS = ("m", "t")
MESSAGE_FIELDS = ("cr", "e", "t", "d", "u", "c", "c.e", "c.c", "cs", "b")
CLAIM_FIELDS = ("t", "e")
SUBSCRIPTION_FIELDS = ("u", "t", "e", "o", "c")

_CHECKSUM = re.compile(r"MD5:([0-9a-f]{32})")
#: What our envelope has room for, in seconds: 136 years.
LONGEST = 2**32 - 1
#: Seconds that are exact in milliseconds too, as Redis has them in sorted sets.
_LATEST = 2**53 // 1000


class Unreadable(Exception):
    """Something is not as stock Zaqar writes it; the text says what."""


class Message(Record, frozen=True):
    created: int
    expires: int
    ttl: int
    #: when its delay ends
    due: int
    client: str
    #: 32 hexadecimal digits; empty: no claim holds it, or did last
    claim: str
    claim_ends: int
    claim_count: int
    #: 16 bytes, or none
    checksum: bytes
    #: JSON text, or what stock encrypted
    body: bytes
    sealed: bool


class Claim(Record, frozen=True):
    #: 32 hexadecimal digits
    id: str
    ttl: int
    expires: int


class Subscription(Record, frozen=True):
    id: str
    subscriber: str
    ttl: int
    expires: int
    #: JSON text
    options: bytes
    confirmed: bool


def list_of(project: str) -> str:
    return f"{project}{_LIST}"


def project_of(listing: bytes) -> str:
    """The project whose list this key is.  Raises Unreadable."""
    return text(listing).removesuffix(_LIST)


def key_of(project: str, queue: str) -> str:
    return f"{project}.{queue}"


def messages_of(project: str, queue: str) -> str:
    return f"{project}.{queue}.messages"


def claims_of(project: str, queue: str) -> str:
    return f"{project}.{queue}.claims"


def subscriptions_of(project: str, queue: str) -> str:
    return f"{project}.{queue}.subscriptions"


def name_of(project: str, member: bytes) -> str:
    """The queue that stands so in its project's list.  Raises Unreadable."""
    known = text(member)
    name = known.removeprefix(f"{project}.")
    if name == known or not name:
        raise Unreadable(f'"{known}" in the list of queues of "{project}" is none of its own')
    return name


def queue(name: str, values: Values) -> Queue:
    """Raises Unreadable."""
    packed, created = values
    metadata = _unpacked(packed, "metadata") if packed else {}
    if not isinstance(metadata, dict):
        raise Unreadable("metadata that are no object")
    _json(metadata, "metadata")
    return Queue(name=name, metadata=metadata, created=1000 * _number(created, 0))


def message(values: Values) -> Message:
    """Raises Unreadable."""
    created, expires, ttl, due, client, claim, claim_ends, count, checksum, packed = values
    if packed is None:
        # Some of stock's writes make a hash anew when the message has just expired.
        raise Unreadable("no body")
    body = _unpacked(packed, "body")
    sealed = isinstance(body, bytes)
    return Message(
        created=_number(created),
        expires=_number(expires),
        ttl=min(_number(ttl), LONGEST),
        due=_number(due, 0),
        client=text(client or b""),
        claim=claim_id(claim or b""),
        claim_ends=_number(claim_ends, 0),
        claim_count=_number(count, 0),
        checksum=_digest(text(checksum or b"")),
        body=body if sealed else _json(body, "body"),
        sealed=sealed,
    )


def claim(id: bytes, values: Values) -> Claim:
    """Raises Unreadable."""
    ttl, expires = values
    return Claim(id=claim_id(id), ttl=_number(ttl), expires=_number(expires))


def subscription(id: bytes, values: Values) -> Subscription:
    """Raises Unreadable."""
    subscriber, ttl, expires, packed, confirmed = values
    options = _unpacked(packed, "options") if packed else {}
    return Subscription(
        id=text(id),
        subscriber=text(subscriber or b""),
        ttl=_number(ttl),
        expires=_number(expires),
        options=_json(options or {}, "options"),
        # Releases before there was confirmation wrote none, and needed none.
        confirmed=bool(_number(confirmed, 1)),
    )


def claim_id(given: bytes) -> str:
    """Without dashes, as we write it; of none, none.  Raises Unreadable."""
    digits = text(given).replace("-", "").lower()
    if digits and not rules.is_claim_id(digits):
        raise Unreadable("a claim id that is no UUID")
    return digits


def text(given: bytes) -> str:
    """Raises Unreadable."""
    try:
        return given.decode()
    except UnicodeDecodeError as error:
        raise Unreadable("a text that is not UTF-8") from error


def _number(given: bytes | None, default: int | None = None) -> int:
    if given is None and default is not None:
        return default
    try:
        number = int(given or b"")
    except ValueError as error:
        raise Unreadable("a number is missing") from error
    if not 0 <= number <= _LATEST:
        raise Unreadable("a number that is no time")
    return number


def _unpacked(packed: bytes | None, what: str) -> Any:
    try:
        return msgspec.msgpack.decode(packed or b"")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"{what} that are not msgpack") from error


def _json(value: Any, what: str) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise Unreadable(f"{what} that JSON has no way to say") from error


def _digest(checksum: str) -> bytes:
    """Of a kind that we do not know, none: the message is what counts."""
    known = _CHECKSUM.fullmatch(checksum)
    return bytes.fromhex(known[1]) if known else b""
