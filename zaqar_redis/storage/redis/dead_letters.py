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
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from zaqar_redis import errors, rules
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Call, Script, Steps
from zaqar_redis.message_fields import REASON
from zaqar_redis.records import DAY_MS, IdempotencyKey, Message
from zaqar_redis.storage.contract import PostDeadLetter
from zaqar_redis.storage.redis import decoding, identity

DROP = Script("message_drop")
_EXHAUSTED = Script("message_exhausted")
_DEFER = Script("queue_defer")
#: also used to post dead letters back to the queue that they came from
POST = Script("dead_letter_post")

#: Milliseconds for which a dead letter is recognised at least.  The next claim repeats an
#: interrupted move, a minute later at the earliest; a day is for queues that are seldom
#: claimed from, and for jobs that are restarted the next morning.
DEAD_LETTER_WINDOW_MS = DAY_MS

#: Calls of one request to get at messages behind others; each settles a hundred, a millisecond.
_CALLS_MAX = 100
#: Dead letters that one request moves before it leaves the rest; each is a command of its own, so
#: these take as long as the calls.
_MOVED_MAX = 200


def move_key(message: str) -> IdempotencyKey:
    """Returns the key by which a queue recognises a message that was moved to it, by its former id.

    It is the same whoever moves it: a dead letter, a redrive and a move by hand are one move.
    """
    return IdempotencyKey.of_day(f"dead {message}")


def take(
    dead_letter: PostDeadLetter,
    project: str,
    queue: str,
    given_now: int,
    call: Call,
    dead_letter_claim: str,
) -> Steps[tuple[Sequence[Message], int | None]]:
    """Calls a script that takes claimable messages, again while it asks for that.

    Moves the dead letters that it finds.  Returns what it has taken, and when it has taken
    nothing, the milliseconds until a message may be claimable; None: that is not known.  When
    too much is in front of those messages, it leaves the rest to the sweeper.
    """
    moved = 0
    for _ in range(_CALLS_MAX):
        now, epoch, *answer = yield call
        if epoch is None:
            if answer:
                raise claim_ttl_too_short(answer[0])
            return (), None
        again, next_visible_ms, flat, *dead = answer
        moved += yield from _move(dead_letter, project, queue, now, epoch, dead, dead_letter_claim)
        if not again:
            return decoding.messages(now, epoch, flat), next_visible_ms
        if moved >= _MOVED_MAX:
            break
    yield _DEFER(keys.of_queue(project, queue), now=given_now)
    return (), 0


def claim_ttl_too_short(least: int) -> errors.BadRequest:
    return errors.BadRequest(
        why=f'The value of "ttl" must be at least {least} seconds in this queue: that is its '
        f'"_min_claim_ttl", {rules.CLAIM_TTL_MIN} unless set.'
    )


def move_exhausted(
    dead_letter: PostDeadLetter, given_now: int, project: str, queue: str
) -> Steps[int]:
    """Moves dead letters that `take` has left, a hundred at most; returns how many."""
    claim = identity.new_claim()
    now, epoch, *answer = yield _EXHAUSTED(
        keys.of_queue(project, queue), now=given_now, dead_letter_claim=claim
    )
    if epoch is None:
        return 0
    return (yield from _move(dead_letter, project, queue, now, epoch, answer[3:], claim))


def _move(
    dead_letter: PostDeadLetter,
    project: str,
    queue: str,
    now: int,
    epoch: bytes,
    found: Sequence[Any],
    dead_letter_claim: str,
) -> Steps[int]:
    """*found*: rank, envelope and hold of each, their dead-letter queue and its ttl.

    Returns how many they are.
    """
    flat, dead_queue, dead_ttl = found
    if not flat:
        return 0
    messages = decoding.messages(now, epoch, flat)
    # They are held, and a later claim tries again: the present claim succeeds all the same.
    with contextlib.suppress(errors.Unavailable):
        for message in messages:
            letter = message.copied(origin=queue)
            if message.reason:
                attributes = {**(letter.attributes or {}), REASON: message.reason}
                letter = replace(letter, attributes=attributes)
            yield dead_letter(
                project,
                dead_queue.decode(),
                replace(letter, ttl=int(dead_ttl)) if dead_ttl else letter,
                client=message.client,
                idempotency_key=move_key(message.id),
            )
        yield DROP(
            keys.of_queue(project, queue),
            *[message.rank for message in messages],
            now=now,
            holder=dead_letter_claim,
            dead=1,
        )
    return len(messages)
