# SPDX-License-Identifier: Apache-2.0
"""How messages get into a queue: what every verb that appends has in common, and a post."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from zaqar_redis import errors
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.script import Argument, Call, Script, Steps
from zaqar_redis.records import Draft, Posted, Retry
from zaqar_redis.storage.driver import NeedsSealing
from zaqar_redis.storage.drivers.redis import identity
from zaqar_redis.storage.drivers.redis.queues import enlist

#: also what appends messages that are packed already
POST = Script("message_post")


def post(
    now: int,
    project: str,
    queue: str,
    drafts: Sequence[Draft],
    *,
    client: bytes,
    default_ttl: int,
    size: int,
    sealed: bool,
    retry: Retry | None = None,
) -> Steps[Posted]:
    rest: list[Argument] = []
    for draft in drafts:
        rest.append(-1 if draft.ttl is None else draft.ttl)
        rest.append(-1 if draft.delay is None else draft.delay)
        rest.append(envelope.tail(draft, client))
    ask = functools.partial(
        POST,
        keys.of_queue(project, queue),
        *rest,
        now=now,
        size=size,
        default_ttl=default_ttl,
        sealed=int(sealed),
        retry=keys.retry(retry.key) if retry else "",
        fingerprint=retry.fingerprint if retry else "",
        window=retry.window if retry else 0,
    )
    outcome, *answer = yield from appended(ask)
    if outcome == b"reused":
        raise errors.KeyReused
    life, first, count, unlisted = answer
    if unlisted:
        yield from enlist(project, queue)
    prefix = identity.prefix(life.decode())
    return Posted(
        ids=tuple([identity.message_id(prefix, rank) for rank in range(first, first + count)]),
        replayed=outcome == b"replayed",
        epoch=life.decode(),
        rank=first,
    )


def appended(ask: Callable[..., Call]) -> Steps[Any]:
    """Answer of a script that appends; asked again with an epoch for a queue to make.

    Raises BadRequest when it is too large for the queue, NeedsSealing when the queue
    wants bodies encrypted.
    """
    answer = yield ask(epoch="")
    while answer[0] == b"missing":
        answer = yield ask(epoch=identity.new_epoch())
    if answer[0] == b"large":
        raise errors.BadRequest(
            why=f"The messages are too large: this queue takes at most {answer[1]} bytes a request."
        )
    if answer[0] == b"plain":
        raise NeedsSealing
    return answer
