# SPDX-License-Identifier: Apache-2.0
"""Messages that were claimed too often move to the dead-letter queue.

The two queues may live on two nodes, so a move is three steps that may each be
repeated: the claim script holds the message with a claim of our own; it is
posted to the dead-letter queue, which knows it by its id for a while; it is deleted
here.  A crash in between leaves it held for a minute, then the next claim begins
again, and the post is recognised.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from zaqar_redis import errors
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.script import Script, Steps
from zaqar_redis.records import Draft, Message, Retry
from zaqar_redis.storage.driver import Bury
from zaqar_redis.storage.drivers.redis.letters import WINDOW

_DROP = Script("message_drop")


def move(
    bury: Bury,
    project: str,
    queue: str,
    letters: Sequence[Message],
    dead_queue: str,
    dead_ttl: bytes | None,
    burial: str,
) -> Steps[None]:
    # They are held, and the next claim goes on: what it took is no less its own.
    with contextlib.suppress(errors.Unavailable):
        for letter in letters:
            draft = Draft(
                body=letter.body,
                ttl=int(dead_ttl) if dead_ttl else letter.ttl,
                delay=0,
                checksum=letter.checksum,
                origin=queue,
                sealed=letter.sealed,
            )
            yield bury(
                project,
                dead_queue,
                draft,
                client=letter.client,
                retry=Retry(key=f"dead {letter.id}", fingerprint=b"", window=WINDOW),
            )
        yield _DROP(
            keys.of_queue(project, queue), *[letter.rank for letter in letters], burial=burial
        )
