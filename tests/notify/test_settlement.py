# SPDX-License-Identifier: Apache-2.0
"""What the steps of a notifier settle, in which order."""

from __future__ import annotations

from zaqar_redis.notify import settlement
from zaqar_redis.notify.settlement import DeliverySettlement
from zaqar_redis.storage.deliveries import PendingDelivery


def test_nothing_is_done_before_what_was_stored_of_it() -> None:
    number = 2 * settlement._STEP_MAX + 1
    done = DeliverySettlement()
    stored = [PendingDelivery("s", f"{n:016d}", 0) for n in range(number)]
    for pending in stored:
        done.store(pending, failed=False)
    last = stored[-1]
    done.store(last, failed=True)
    done.end_pending(last.id)
    done.end_entry(b"1-0")
    first, second, third = done.take(), done.take(), done.take()
    for early in (first, second):
        assert len(early.pending) == settlement._STEP_MAX
        assert [early.failed, early.made, early.entries] == [[], [], []]
    assert (third.pending, third.failed, third.made) == ([last], [last], [last.id])
    assert third.entries == [b"1-0"]
    assert done.is_empty
