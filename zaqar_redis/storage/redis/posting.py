# SPDX-License-Identifier: Apache-2.0
"""Posts of messages, and what all verbs that append have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zaqar_redis import errors
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.script import Argument, Call, Script, Steps
from zaqar_redis.records import IdempotencyKey, NewMessage, PostResult
from zaqar_redis.schedule_records import OccurrenceKey
from zaqar_redis.storage.redis import identity
from zaqar_redis.storage.redis.queues import add_to_list

#: also used to append messages that are packed already
POST = Script("message_post")
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
    for message in drafts:
        ttl, delay = message.ttl, message.delay
        if message.deliver_at is not None:
            delay = -message.deliver_at
        tail = envelope.tail(message, client)
        rest += (-1 if ttl is None else ttl, -1 if delay is None else delay, tail)
    if isinstance(idempotency_key, OccurrenceKey):

        def build_numbered(epoch: str) -> Call:
            return POST_NUMBERED(
                keys.of_queue(project, queue),
                *rest,
                now=now,
                epoch=epoch,
                size=size,
                default_ttl=default_ttl,
                encrypted=int(encrypted),
                entry=keys.ledger(idempotency_key.writer),
                batch=idempotency_key.number,
                chunk=0,
                digest="0",
                window=idempotency_key.window,
            )

        outcome, *_ = yield from run_append(project, queue, build_numbered)
        return PostResult((), replayed=outcome == b"known")
    digest, fingerprint, window = b"", b"", 0
    if idempotency_key is not None:
        digest = keys.idempotency_key(idempotency_key.key)
        fingerprint, window = idempotency_key.fingerprint, idempotency_key.window

    def build_call(epoch: str) -> Call:
        return POST(
            keys.of_queue(project, queue),
            *rest,
            now=now,
            epoch=epoch,
            size=size,
            default_ttl=default_ttl,
            encrypted=int(encrypted),
            idempotency_key=digest,
            fingerprint=fingerprint,
            window=window,
        )

    outcome, *answer = yield from run_append(project, queue, build_call)
    if outcome == b"reused":
        raise errors.IdempotencyKeyReused
    stored_epoch, first, count, _ = answer
    epoch = stored_epoch.decode()
    return PostResult(
        ids=identity.message_ids(epoch, range(first, first + count)),
        replayed=outcome == b"replayed",
        epoch=epoch,
        rank=first,
    )


def run_append(project: str, queue: str, build_call: Callable[..., Call]) -> Steps[Any]:
    """Returns the answer of a script that appends; creates the queue if it is missing.

    Then the script runs again with a new epoch.  A queue that is not in its project's list
    is added: the last value of an answer ``posted`` says so.  Raises BadRequest when the
    request is too large for the queue, EncryptionRequired when it wants bodies encrypted,
    PostRefused when it is full or posts to it are paused.
    """
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
        raise errors.QueueFull(queue=queue, limit=answer[1], more=answer[2])
    if answer[0] == b"paused":
        raise errors.QueuePaused(queue=queue)
    if answer[0] == b"posted" and answer[-1]:
        yield from add_to_list(project, queue)
    return answer
