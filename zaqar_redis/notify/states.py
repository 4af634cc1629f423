# SPDX-License-Identifier: Apache-2.0
"""The states of a lane, and what leads from one to the next.

A lane changes its state by this table only.  An event that a state does not list cannot happen
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class LaneState(Enum):
    #: delivers what comes, from memory
    FLOWING = "flowing"
    #: reads what waits in the store, and delivers it; what comes is stored behind it
    CATCHING_UP = "catching up"
    #: delivers nothing; what comes is stored
    HELD = "held"
    #: another notifier has the queue soon: begins nothing, and tells what is still made
    HANDED_OVER = "handed over"
    #: the subscription is gone, or another notifier has the queue: what it has needs no delivery
    ENDED = "ended"


class LaneEvent(Enum):
    #: there is no room for what comes
    OVERFLOW = "overflow"
    #: what waits in the store is due
    WAKE = "wake"
    #: nothing waits in the store any more
    DRAIN = "drain"
    #: the subscription is paused, or the subscriber is to be left in peace for a while
    HOLD = "hold"
    HAND_OVER = "hand over"
    END = "end"


LANE_TRANSITIONS: Mapping[LaneState, Mapping[LaneEvent, LaneState]] = {
    LaneState.FLOWING: {
        LaneEvent.OVERFLOW: LaneState.CATCHING_UP,
        LaneEvent.WAKE: LaneState.CATCHING_UP,
        LaneEvent.HOLD: LaneState.HELD,
        LaneEvent.HAND_OVER: LaneState.HANDED_OVER,
        LaneEvent.END: LaneState.ENDED,
    },
    LaneState.CATCHING_UP: {
        # Something was added to what waits.
        LaneEvent.WAKE: LaneState.CATCHING_UP,
        LaneEvent.DRAIN: LaneState.FLOWING,
        LaneEvent.HOLD: LaneState.HELD,
        LaneEvent.HAND_OVER: LaneState.HANDED_OVER,
        LaneEvent.END: LaneState.ENDED,
    },
    LaneState.HELD: {
        LaneEvent.WAKE: LaneState.CATCHING_UP,
        LaneEvent.HOLD: LaneState.HELD,
        LaneEvent.HAND_OVER: LaneState.HANDED_OVER,
        LaneEvent.END: LaneState.ENDED,
    },
    LaneState.HANDED_OVER: {
        # What it has made until its attempts have ended is told to the store.
        LaneEvent.END: LaneState.HANDED_OVER,
    },
    LaneState.ENDED: {
        # The store may say so until the subscriptions have been read again, as may attempts.
        LaneEvent.WAKE: LaneState.ENDED,
        LaneEvent.HAND_OVER: LaneState.ENDED,
        LaneEvent.END: LaneState.ENDED,
    },
}
