# SPDX-License-Identifier: Apache-2.0
"""Messages that were claimed too often move to the dead-letter queue.

The two queues may live on two nodes, so a move is three steps that may each be
repeated: the claim script holds the message with an internal claim; it is posted to
the dead-letter queue, which recognises its id for a while; it is deleted from its
queue.  A crash in between leaves it held for a minute, then the next claim begins
again, and the post is recognised.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence

from zaqar_redis import errors
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.script import Call, Script, Steps
from zaqar_redis.records import IdempotencyKey, Message, NewMessage
from zaqar_redis.storage.contract import PostDeadLetter
from zaqar_redis.storage.redis import decoding, posting

DROP = Script("message_drop")
#: also used to post dead letters back to the queue that they came from
POST = Script("dead_letter_post")

#: Milliseconds for which a dead letter is recognised at least.  The next claim repeats an
#: interrupted move, a minute later at the earliest; a day is for queues that are seldom
#: claimed from, and for jobs that are restarted the next morning.
DEAD_LETTER_WINDOW_MS = 24 * 3600 * 1000


def move_key(message: str) -> IdempotencyKey:
    """Returns the key by which a queue recognises a message that was moved to it, by its former id.

    It is the same whoever moves it: a dead letter, a redrive and a move by hand are one move.
    """
    return IdempotencyKey(key=f"dead {message}", fingerprint=b"", window=DEAD_LETTER_WINDOW_MS)


def take(
    dead_letter: PostDeadLetter,
    project: str,
    queue: str,
    call: Call,
    dead_letter_claim: str,
) -> Steps[tuple[Sequence[Message], int | None]]:
    """Calls a script that takes claimable messages, again while it asks for that.

    Moves the dead letters that it finds.  Returns what it has taken, and when it has taken
    nothing, the milliseconds until a message may be claimable; None: that is not known.
    """
    again = 1
    while again:
        now, epoch, *answer = yield call
        if epoch is None:
            return (), None
        again, next_visible_ms, flat, dead, dead_queue, dead_ttl = answer
        if dead:
            yield from _move(
                dead_letter,
                project,
                queue,
                decoding.messages(now, epoch, dead),
                dead_queue.decode(),
                dead_ttl,
                dead_letter_claim,
            )
    return decoding.messages(now, epoch, flat), next_visible_ms


def _move(
    dead_letter: PostDeadLetter,
    project: str,
    queue: str,
    messages: Sequence[Message],
    dead_queue: str,
    dead_ttl: bytes | None,
    dead_letter_claim: str,
) -> Steps[None]:
    # They are held, and a later claim tries again: the present claim succeeds all the same.
    with contextlib.suppress(errors.Unavailable):
        for message in messages:
            new_message = NewMessage(
                body=message.body,
                ttl=int(dead_ttl) if dead_ttl else message.ttl,
                delay=0,
                checksum=message.checksum,
                origin=queue,
                encrypted=message.encrypted,
                attributes=message.attributes,
            )
            yield dead_letter(
                project,
                dead_queue,
                new_message,
                client=message.client,
                idempotency_key=move_key(message.id),
            )
        yield DROP(
            keys.of_queue(project, queue),
            *[message.rank for message in messages],
            holder=dead_letter_claim,
            dead=1,
        )


def post_dead_letter(
    now: int,
    project: str,
    queue: str,
    dead_letter: NewMessage,
    client: bytes,
    idempotency_key: IdempotencyKey,
) -> Steps[None]:
    """See `contract.Messages.dead_letter`."""
    tail = envelope.tail(dead_letter, client)
    build_call = functools.partial(
        POST,
        keys.of_queue(project, queue),
        *(keys.idempotency_key(idempotency_key.key), dead_letter.ttl or 0, tail),
        now=now,
        window=idempotency_key.window,
    )
    yield from posting.run_append(project, queue, build_call)
