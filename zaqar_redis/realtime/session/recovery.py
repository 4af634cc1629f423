# SPDX-License-Identifier: Apache-2.0
"""Recovery: where a subscription starts, and what its client missed before.

A client subscribes first, then the history is read, then the publications of the history and
those that came meanwhile are merged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zaqar_redis.metrics.definitions import RECOVERIES
from zaqar_redis.realtime.engine import NO_POSITION, HistoryFilter, Position
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.protocol.codes import CommandRejected, Disconnected
from zaqar_redis.realtime.session import deltas
from zaqar_redis.realtime.session.context import ChannelSubscription

#: Bit of the flag: the client prefers an error to a subscription without recovery.
_FLAG_REJECT_UNRECOVERED = 2


class HistoryGap(Exception):
    """Live publications do not follow the history: some were lost on the way."""


async def recover(
    subscription: ChannelSubscription, request: wire.SubscribeRequest, result: wire.SubscribeResult
) -> None:
    """Sets the subscription's position, and adds to *result* what its client missed.

    Raises CommandRejected, Disconnected, StoreUnavailable.
    """
    context, options = subscription.session.context, subscription.options
    cached = options.force_recovery_mode == "cache"
    result.was_recovering = subscription.recoverable and (
        request.recover or (cached and options.auto_cache_recover)
    )
    if not result.was_recovering:
        _, top = await context.history(subscription.channel, HistoryFilter(limit=0), options)
        _start_at(subscription, result, top)
        return
    wanted = Position(request.offset, request.epoch) if request.recover else NO_POSITION
    missed, top = await (_read_latest if cached else _read_after)(subscription, wanted)
    result.recovered = missed is not None
    RECOVERIES.add("recovered" if result.recovered else "lost")
    if missed is None:
        if request.recover and request.flag & _FLAG_REJECT_UNRECOVERED:
            raise CommandRejected(codes.UNRECOVERABLE)
        _start_at(subscription, result, top)
        return
    live = [each for each, epoch in subscription.pending if epoch == top.epoch]
    try:
        missed, end = merge(missed, live, top)
    except HistoryGap as gap:
        raise Disconnected(codes.INSUFFICIENT_STATE) from gap
    subscription.offset, subscription.epoch = end, top.epoch
    result.publications = _as_delivered(subscription, missed)
    # The client takes its offset from the publications; when all were filtered out, from here.
    result.offset = end if missed and not result.publications else wanted.offset
    result.epoch = top.epoch


def _start_at(
    subscription: ChannelSubscription, result: wire.SubscribeResult, top: Position
) -> None:
    result.offset, result.epoch = top
    subscription.offset, subscription.epoch = top


async def _read_after(
    subscription: ChannelSubscription, wanted: Position
) -> tuple[list[wire.Publication] | None, Position]:
    """Returns the publications after *wanted*, None when some are missing; and the position."""
    context = subscription.session.context
    limit = context.settings.recovery_max
    # One more than the limit, to see whether more was missed.
    since = HistoryFilter(wanted, limit=limit + 1)
    found, top = await context.history(subscription.channel, since, subscription.options)
    fits = len(found) <= limit and is_recovered(wanted, found, top)
    return found if fits else None, top


async def _read_latest(
    subscription: ChannelSubscription, wanted: Position
) -> tuple[list[wire.Publication] | None, Position]:
    """Returns the same in cache mode, where only the latest publication counts."""
    since = HistoryFilter(limit=1, reverse=True)
    found, top = await subscription.session.context.history(
        subscription.channel, since, subscription.options
    )
    is_cached = found[0].offset == top.offset if found else wanted == top
    if not is_cached:
        return None, top
    return [] if wanted == top else found, top


def _as_delivered(
    subscription: ChannelSubscription, missed: Sequence[wire.Publication]
) -> list[wire.Publication]:
    """Returns the recovered publications as the subscriber gets them: filtered, or as deltas."""
    if subscription.delta and missed:
        subscription.delta_base = missed[-1].data
        return deltas.delta_chain(missed, subscription.session.codec.binary)
    tag_filter = subscription.tag_filter
    return [each for each in missed if tag_filter is None or tag_filter(each.tags)]


def is_recovered(wanted: Position, found: Sequence[wire.Publication], top: Position) -> bool:
    """Returns whether *found* is everything after *wanted*, up to the *top* position."""
    if wanted.epoch not in ("", top.epoch):
        return False
    # Offsets are consecutive, so the right number of publications is all of them.
    return len(found) == top.offset - wanted.offset


def merge(
    read: Sequence[wire.Publication], live: Iterable[wire.Publication], top: Position
) -> tuple[list[wire.Publication], int]:
    """Returns the history followed by what came while it was read, and the offset of the end.

    *top* is the position when the history was read.  Raises HistoryGap.
    """
    merged = list(read)
    end = top.offset
    for each in live:
        if each.offset <= end:
            continue
        if each.offset != end + 1:
            raise HistoryGap
        merged.append(each)
        end = each.offset
    return merged, end
