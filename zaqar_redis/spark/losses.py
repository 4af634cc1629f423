# SPDX-License-Identifier: Apache-2.0
"""Messages that were to be read and cannot be any more: told, or gone around.

A hole in a queue is no loss: messages that were deleted, or whose time was over, are
what queues are for.
"""

from __future__ import annotations

import logging

from zaqar_redis.records import Top

LOG = logging.getLogger(__name__)


class DataLoss(Exception):
    """What was to be read is not there; the text says what, where, and which option."""


_HINT = 'set the option "failOnDataLoss" to false to go on all the same'


def start(queue: str, epoch: str | None, offset: int, top: Top, fail: bool) -> int:
    """From where to read a queue on, in the life it has now.

    Raises DataLoss, if it is to *fail*, when the queue is not the one of *epoch* any
    more, or ends before *offset*; else that is logged, and reading goes on from the
    oldest message or from the end.
    """
    if epoch is not None and epoch != top.epoch:
        _lost(
            f'the queue "{queue}" was deleted and made again: its epoch was {epoch} and is '
            f"{top.epoch}; what was behind rank {offset} of the old one is gone",
            fail,
        )
        return top.first
    if offset > top.following:
        _lost(
            f'the queue "{queue}" has lost messages: it was read up to rank {offset} and ends '
            f"at {top.following}, in the same epoch {top.epoch}; was a store restored, or did "
            "a replica take over?",
            fail,
        )
        return top.following
    return offset


def gone(queue: str, epoch: str, offset: int, fail: bool) -> None:
    """The queue is not there.  Raises DataLoss if it is to *fail*."""
    _lost(
        f'the queue "{queue}" was deleted: its epoch was {epoch}; what was behind rank '
        f"{offset} is gone",
        fail,
    )


def _lost(what: str, fail: bool) -> None:
    if fail:
        raise DataLoss(f"{what}; {_HINT}")
    LOG.warning("%s", what, extra={"action": "data_lost"})
