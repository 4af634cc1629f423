# SPDX-License-Identifier: Apache-2.0
"""The states of a move, in order, as another process finds them.

A mover may die anywhere.  Whoever finds its move reads its state from the move locks of both
stores, and undoes or finishes it as `STATES` says; every step may be repeated.
"""

from __future__ import annotations

from enum import Enum

from zaqar_redis.records import LockKind, Record


class Settlement(Enum):
    """How a move is settled whose mover is gone."""

    #: the queue stays in the source
    UNDO = "undo"
    #: the queue is in the target
    FINISH = "finish"


class MoveState(Record, frozen=True):
    """One state of a move: what it has left in both stores."""

    name: str
    #: the move lock of the queue in the source, and in the target
    source: LockKind | None
    target: LockKind | None
    settlement: Settlement


STATES = (
    MoveState("begun", None, None, Settlement.UNDO),
    #: messages are copied while the queue is in use
    MoveState("copying", None, LockKind.INTO, Settlement.UNDO),
    #: nobody uses the queue: what changed since is copied
    MoveState("frozen", LockKind.OUT, LockKind.INTO, Settlement.UNDO),
    #: from here on only the copy counts
    MoveState("sealed", LockKind.GONE, LockKind.INTO, Settlement.FINISH),
    #: the queue is in use in the target
    MoveState("imported", LockKind.GONE, None, Settlement.FINISH),
    #: the lock keeps out callers whose route is old
    MoveState("moved", LockKind.CLOSED, None, Settlement.FINISH),
)

#: How a move is settled, by the lock that it holds in the source.  "begun" and "copying" hold
#: none there; nor does a move whose lock expired.  A CLOSED lock has the token of no move that
#: is still to be undone.
BY_SOURCE_LOCK: dict[LockKind | None, Settlement] = {
    state.source: state.settlement for state in STATES
}
