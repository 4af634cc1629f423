# SPDX-License-Identifier: Apache-2.0
"""Posts of messages, and what all verbs that append have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from zaqar_redis import errors, message_fields
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.script import Argument, Call, Script, Steps
from zaqar_redis.records import IdempotencyKey, NewMessage, PostResult
from zaqar_redis.schedule_records import OccurrenceKey
from zaqar_redis.storage.redis import identity
from zaqar_redis.storage.redis.queues import add_to_list

#: to a queue that exists and has no rules; else it asks for the other one
_POST = Script("message_post")
#: also used to append messages that are packed already
POST_RULED = Script("message_post_ruled")
#: for messages that nothing identifies, and for those that are never duplicates
_NO_DEDUP, NEVER_DUPLICATES = bytes(16), b"-"
#: also used for chunks of batches
POST_NUMBERED = Script("ledger_post")


def post(
    now: int,
    project: str,
    queue: str,
    drafts: Sequence[NewMessage],
    *,
    client: bytes,
    default_ttl: int,
    size: int,
    encrypted: bool,
    idempotency_key: IdempotencyKey | None = None,
) -> Steps[PostResult]:
    rest: list[Argument] = []
    may_repeat = False
    for message in drafts:
        ttl, delay = message.ttl, message.delay
        if message.deliver_at is not None:
            delay = -message.deliver_at
        tail = envelope.tail(message, client)
        rest += (-1 if ttl is None else ttl, -1 if delay is None else delay, tail)
        if message.dedup or message.attributes:
            may_repeat = True
    if isinstance(idempotency_key, OccurrenceKey):
        return (
            yield from _post_occurrence(
                project,
                queue,
                rest,
                idempotency_key,
                now=now,
                size=size,
                default_ttl=default_ttl,
                encrypted=int(encrypted),
            )
        )
    dedups = _dedups(drafts) if may_repeat or drafts[0].dedup is None else b""
    digest, fingerprint, window = b"", b"", 0
    if idempotency_key is not None:
        digest = keys.idempotency_key(idempotency_key.key)
        fingerprint, window = idempotency_key.fingerprint, idempotency_key.window

    queue_keys = keys.of_queue(project, queue)
    goes_by_rules = digest or dedups not in (b"", NEVER_DUPLICATES)

    def build_call(epoch: str) -> Call:
        if not (epoch or goes_by_rules or queue_keys.has_rules):
            return _POST(
                queue_keys,
                *rest,
                now=now,
                size=size,
                default_ttl=default_ttl,
                encrypted=int(encrypted),
            )
        return POST_RULED(
            queue_keys,
            *rest,
            now=now,
            epoch=epoch,
            size=size,
            default_ttl=default_ttl,
            encrypted=int(encrypted),
            idempotency_key=digest,
            fingerprint=fingerprint,
            window=window,
            dedups=dedups,
        )

    outcome, *answer = yield from run_append(project, queue, build_call)
    if outcome == b"reused":
        raise errors.IdempotencyKeyReused
    if outcome == b"unidentified":
        raise errors.DedupIdsRequired
    stored_epoch, first, count, repeated, _ = answer
    epoch = stored_epoch.decode()
    ranks: Sequence[int] = range(first, first + count)
    places: Sequence[int] = ()
    if repeated:
        ranks, places = _with_duplicates(ranks, repeated)
    return PostResult(
        ids=identity.message_ids(epoch, ranks),
        replayed=outcome == b"replayed",
        epoch=epoch,
        rank=first,
        duplicates=places,
    )


def _post_occurrence(
    project: str,
    queue: str,
    rest: Sequence[Argument],
    key: OccurrenceKey,
    **more: Argument,
) -> Steps[PostResult]:
    """Posts for a time of a schedule, unless the queue has got that of this or a later time."""
    build_call = functools.partial(
        POST_NUMBERED,
        keys.of_queue(project, queue),
        *rest,
        entry=keys.ledger(key.writer),
        batch=key.number,
        chunk=0,
        digest="0",
        window=key.window,
        **more,
    )
    outcome, *_ = yield from run_append(project, queue, build_call)
    return PostResult((), replayed=outcome == b"known")


def _with_duplicates(new: Iterable[int], repeated: bytes) -> tuple[list[int], list[int]]:
    """Returns the ranks of all messages, and the places of duplicates.

    *repeated*: place and rank of each of these, in order.
    """
    ranks, numbers = list(new), list(map(int, repeated.split()))
    for place, rank in zip(numbers[::2], numbers[1::2], strict=True):
        ranks.insert(place, rank)
    return ranks, numbers[::2]


def _dedups(drafts: Sequence[NewMessage]) -> bytes:
    """Returns the digests of what identifies messages; empty: nothing identifies any."""
    if drafts[0].dedup is None:
        return NEVER_DUPLICATES
    names = list(map(message_fields.dedup_name, drafts))
    if not any(names):
        return b""
    return b"".join(keys.dedup(name) if name else _NO_DEDUP for name in names)


def run_append(project: str, queue: str, build_call: Callable[..., Call]) -> Steps[Any]:
    """Returns the answer of a script that appends; creates the queue if it is missing.

    Then the script runs again with a new epoch; that of a queue with rules runs instead of the one
    for queues without, from then on.  A queue that is not in its project's list is added: the
    last value of an answer ``posted`` says so.  Raises BadRequest when the request is too large
    for the queue, EncryptionRequired when it wants bodies encrypted, PostRefused when it is full
    or posts to it are paused.
    """
    answer = yield build_call(epoch="")
    if answer[0] == b"ruled":
        keys.of_queue(project, queue).has_rules = True
        answer = yield build_call(epoch="")
    while answer[0] == b"missing":
        answer = yield build_call(epoch=identity.new_epoch())
    if answer[0] == b"large":
        raise errors.BadRequest(
            why=f"The messages are too large: this queue takes at most {answer[1]} bytes a request."
        )
    if answer[0] == b"plain":
        raise errors.EncryptionRequired
    if answer[0] == b"full":
        _, limit, more, what = answer
        raise errors.QueueFull(queue=queue, limit=limit, more=more, what=what.decode())
    if answer[0] == b"paused":
        raise errors.QueuePaused(queue=queue)
    if answer[0] == b"posted" and answer[-1]:
        yield from add_to_list(project, queue)
    return answer
