# SPDX-License-Identifier: Apache-2.0
"""The copy of one queue, observed: what the report of `migrate` says of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from zaqar_redis import errors
from zaqar_redis.spark.stores import StoreConnections
from zaqar_redis.storage.move.copy import copy_messages
from zaqar_redis.storage.redis.bulk import queue_counts
from zaqar_redis.storage.transfer import Transfer, TransferTarget


class QueueCopy:
    """One try to copy one queue.  The mover calls `live` and `verify`."""

    def __init__(
        self,
        stores: StoreConnections,
        source: str,
        target: str,
        advance: Callable[[int], None],
    ) -> None:
        """*source*, *target*: URIs; *advance* is called with numbers of copied messages."""
        self._source = stores.client(source)
        self._target = stores.client(target)
        self._advance = advance
        self._frozen: float | None = None
        #: messages that were copied while the queue was in use, and while it was frozen
        self.live_count = 0
        self.rest_count = 0
        self.verified = False

    @property
    def seconds_frozen(self) -> float:
        """Seconds since the queue was frozen; 0 when it was not."""
        return time.monotonic() - self._frozen if self._frozen is not None else 0.0

    async def live(
        self, project: str, queue: str, token: str, source: Transfer, target: TransferTarget
    ) -> int:
        """Copies while the queue is in use: a `CopyLive`."""
        copied_rank = await copy_messages(
            project, queue, token, source, target, on_page=self._note_page
        )
        self._frozen = time.monotonic()
        return copied_rank

    async def verify(self, project: str, queue: str, copied_rank: int) -> None:
        """Raises CannotMove when the copy differs from the frozen queue: a `VerifyCopy`."""
        mine = queue_counts.count_queue(self._source, project, queue)
        wrong = mine.differences(queue_counts.count_queue(self._target, project, queue))
        if wrong:
            raise errors.CannotMove(
                queue=queue, why=f"its copy differs from it ({'; '.join(wrong)}); check the store"
            )
        self.rest_count = queue_counts.count_after(self._source, project, queue, copied_rank)
        self._advance(self.rest_count)
        self.verified = True

    def _note_page(self, messages: int) -> None:
        self.live_count += messages
        self._advance(messages)
