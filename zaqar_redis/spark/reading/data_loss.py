# SPDX-License-Identifier: Apache-2.0
"""Messages that were to be read and no longer can be: an error, or a logged warning.

A gap in the ranks is no loss: it is normal that messages are deleted or expire.
"""

from __future__ import annotations

import logging

from zaqar_redis.records import Watermarks

LOG = logging.getLogger(__name__)


class DataLoss(Exception):
    """Messages to be read are lost; the text says which, where, and names the option."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}; {hint}")
        #: the text without the option
        self.what = what


_HINT = 'set the option "failOnDataLoss" to false to continue without them'


def resume_rank(
    queue: str, epoch: str | None, offset: int, watermarks: Watermarks, fail: bool
) -> int:
    """Returns the rank from which to read on, in the queue's current epoch.

    Raises DataLoss, if it is to *fail*, when the queue's epoch is no longer *epoch*, or the
    queue ends before *offset*; else logs that, and reading continues from the oldest
    message or from the end.
    """
    if epoch is not None and epoch != watermarks.epoch:
        _lost(
            f'the queue "{queue}" was deleted and created again: its epoch was {epoch} and is '
            f"{watermarks.epoch}; what was behind rank {offset} of the old one is gone",
            fail,
        )
        return watermarks.first
    if offset > watermarks.next_rank:
        _lost(
            f'the queue "{queue}" has lost messages: it was read up to rank {offset} and ends '
            f"at {watermarks.next_rank}, in the same epoch {watermarks.epoch}; was a store "
            "restored, or did a replica take over?",
            fail,
        )
        return watermarks.next_rank
    return offset


def starting_rank(
    queue: str, epoch: str | None, offset: int, watermarks: Watermarks, fail: bool
) -> int:
    """The same for an offset that options give, of which nothing was read yet."""
    if epoch in (None, watermarks.epoch) and offset > watermarks.next_rank:
        _lost(
            f'option "startingOffsets": the queue "{queue}" ends at rank {watermarks.next_rank}, '
            f"before {offset}",
            fail,
            'give another rank, or set the option "failOnDataLoss" to false to begin at the end',
        )
    return resume_rank(queue, epoch, min(offset, watermarks.next_rank), watermarks, fail)


def queue_deleted(queue: str, epoch: str, offset: int, fail: bool) -> None:
    """Reports that the queue does not exist.  Raises DataLoss if it is to *fail*."""
    _lost(
        f'the queue "{queue}" was deleted: its epoch was {epoch}; what was behind rank '
        f"{offset} is gone",
        fail,
    )


def _lost(what: str, fail: bool, hint: str = _HINT) -> None:
    if fail:
        raise DataLoss(what, hint)
    LOG.warning("%s", what, extra={"action": "data_lost"})
