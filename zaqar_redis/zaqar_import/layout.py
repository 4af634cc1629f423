# SPDX-License-Identifier: Apache-2.0
"""The layout of stock Zaqar's Redis store: its keys, and the parsing of their values.

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
dots, so a key is always built from its parts, never split at a dot.
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
#: A key of every store with messages of stock's, unless the store is a pool.
INDEX = "msgset_index"

QUEUE_FIELDS = ("m", "t")
#: Fields of what a queue has, by its kind: ``<project>.<queue>.<kind>`` lists the ids.
FIELDS = {
    "messages": ("cr", "e", "t", "d", "u", "c", "c.e", "c.c", "cs", "b"),
    "claims": ("t", "e"),
    "subscriptions": ("u", "t", "e", "o", "c"),
}

_CHECKSUM = re.compile(r"MD5:([0-9a-f]{32})")
#: The longest TTL or delay that fits in our envelope, in seconds: 136 years.
LONGEST = 2**32 - 1
#: The last second whose milliseconds are exact as the score of a sorted set.
_LATEST = 2**53 // 1000


class InvalidStockData(Exception):
    """Something is not as stock Zaqar writes it; the text says what."""


class StockMessage(Record, frozen=True):
    created: int
    expires: int
    ttl: int
    #: time at which the delay ends
    delay_ends: int
    client: str
    #: 32 hexadecimal digits of the last claim; empty: there was none
    claim: str
    claim_ends: int
    claim_count: int
    #: 16 bytes, or none
    checksum: bytes
    #: JSON text, or what stock encrypted
    body: bytes
    encrypted: bool


class StockClaim(Record, frozen=True):
    #: 32 hexadecimal digits
    id: str
    ttl: int
    expires: int


class StockSubscription(Record, frozen=True):
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
    """Returns the project whose list this key is.  Raises InvalidStockData."""
    return text(listing).removesuffix(_LIST)


def key_of(project: str, queue: str) -> str:
    return f"{project}.{queue}"


def name_of(project: str, member: bytes) -> str:
    """Returns the queue that a member of its project's list names.  Raises InvalidStockData."""
    known = text(member)
    name = known.removeprefix(f"{project}.")
    if name == known or not name:
        raise InvalidStockData(f'"{known}" in the list of queues of "{project}" is none of its own')
    return name


def queue(name: str, values: Values) -> Queue:
    """Raises InvalidStockData."""
    packed, created = values
    metadata = _unpacked(packed, "metadata") if packed else {}
    if not isinstance(metadata, dict):
        raise InvalidStockData("metadata that are no object")
    _json(metadata, "metadata")
    return Queue(name=name, metadata=metadata, created=1000 * _number(created, 0))


def message(values: Values) -> StockMessage:
    """Raises InvalidStockData."""
    created, expires, ttl, delay_ends, client, claim, claim_ends, count, checksum, packed = values
    if packed is None:
        # Some of stock's writes create the hash anew when the message has just expired.
        raise InvalidStockData("no body")
    body = _unpacked(packed, "body")
    encrypted = isinstance(body, bytes)
    return StockMessage(
        created=_number(created),
        expires=_number(expires),
        ttl=min(_number(ttl), LONGEST),
        delay_ends=_number(delay_ends, 0),
        client=text(client or b""),
        claim=claim_id(claim or b""),
        claim_ends=_number(claim_ends, 0),
        claim_count=_number(count, 0),
        checksum=_digest(text(checksum or b"")),
        body=body if encrypted else _json(body, "body"),
        encrypted=encrypted,
    )


def claim(id: bytes, values: Values) -> StockClaim:
    """Raises InvalidStockData."""
    ttl, expires = values
    return StockClaim(id=claim_id(id), ttl=_number(ttl), expires=_number(expires))


def subscription(id: bytes, values: Values) -> StockSubscription:
    """Raises InvalidStockData."""
    subscriber, ttl, expires, packed, confirmed = values
    options = _unpacked(packed, "options") if packed else {}
    return StockSubscription(
        id=text(id),
        subscriber=text(subscriber or b""),
        ttl=_number(ttl),
        expires=_number(expires),
        options=_json(options or {}, "options"),
        # Releases without confirmation wrote no such field, and needed none.
        confirmed=bool(_number(confirmed, 1)),
    )


def claim_id(given: bytes) -> str:
    """Returns a claim id without dashes, as we write it; empty for none.

    Raises InvalidStockData.
    """
    digits = text(given).replace("-", "").lower()
    if digits and not rules.is_claim_id(digits):
        raise InvalidStockData("a claim id that is no UUID")
    return digits


def text(given: bytes) -> str:
    """Raises InvalidStockData."""
    try:
        return given.decode()
    except UnicodeDecodeError as error:
        raise InvalidStockData("a text that is not UTF-8") from error


def _number(given: bytes | None, default: int | None = None) -> int:
    if given is None and default is not None:
        return default
    try:
        number = int(given or b"")
    except ValueError as error:
        raise InvalidStockData("a number is missing") from error
    if not 0 <= number <= _LATEST:
        raise InvalidStockData("a number that is no time")
    return number


def _unpacked(packed: bytes | None, what: str) -> Any:
    try:
        return msgspec.msgpack.decode(packed or b"")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidStockData(f"{what} that are not msgpack") from error


def _json(value: Any, what: str) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise InvalidStockData(f"{what} that JSON cannot express") from error


def _digest(checksum: str) -> bytes:
    """Returns a checksum's bytes; none of an unknown kind: the message is what counts."""
    known = _CHECKSUM.fullmatch(checksum)
    return bytes.fromhex(known[1]) if known else b""
