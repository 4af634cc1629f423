# SPDX-License-Identifier: Apache-2.0
"""What a task of migrate does: a range of ranks goes from one Redis to another.

Messages that were written are written again with the same content, so a task may run
twice; one that comes too late, when the queue is frozen, is refused by the target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.batch import BatchSettings
from zaqar_redis.keyspace.client import BlockingClient
from zaqar_redis.records import Portion
from zaqar_redis.spark.counting import counting
from zaqar_redis.storage.drivers.redis.range_reader import Content, RangeReader, RawPage
from zaqar_redis.storage.drivers.redis.transfer import Transfer

#: Messages in one trip: a few milliseconds of Redis' time, as for the service's mover.
_PAGE = 1000
#: Connections of a task: it does one thing at a time.
_CONNECTIONS = 1
#: Bytes of a checksum: what is looked for are faults, not forgery.
_DIGEST = 8


class Differs(Exception):
    """What the target has is not what it was given."""


@dataclass(frozen=True)
class Leg:
    """From where to where; it travels to tasks."""

    project: str
    queue: str
    epoch: str
    #: of the gate at the target
    token: str
    source: str
    target: str
    #: seconds for an answer
    timeout: float


@dataclass(frozen=True)
class Copied:
    """What became of a range."""

    messages: int
    #: of ranks and envelopes, the same at both sides
    checksum: str


def copy(leg: Leg, start: int, end: int) -> Copied:
    """Copy the messages from the rank *start* to before *end*, and read them back.

    Raises EpochChanged when it is another queue by now, Gated when the move was given
    up, StoreUnavailable, and Differs.
    """
    settings = BatchSettings(timeout=leg.timeout)
    source = BlockingClient(leg.source, settings, _CONNECTIONS)
    target = BlockingClient(leg.target, settings, _CONNECTIONS)
    try:
        with counting() as did:
            return _copied(leg, source, target, start, end, did)
    finally:
        source.close()
        target.close()


def _copied(
    leg: Leg,
    source: BlockingClient,
    target: BlockingClient,
    start: int,
    end: int,
    did: Callable[[int], None],
) -> Copied:
    reader = RangeReader(source, leg.project, leg.queue, leg.epoch)
    transfer = Transfer(target)
    bodies = keys.of_queue(leg.project, leg.queue).bodies
    given, found = (hashlib.blake2b(digest_size=_DIGEST) for _ in range(2))
    messages = 0
    for page in reader.pages(start, end, _PAGE, Content()):
        ranks, items = _items(page)
        if not ranks:
            continue
        portion = Portion(kind="messages", items=items)
        transfer.take_in(leg.project, leg.queue, leg.token, portion).run()
        there = target.command("HMGET", bodies, *ranks)
        given.update(_flat(ranks, items[1::2]))
        found.update(_flat(ranks, there))
        messages += len(ranks)
        did(len(ranks))
    if given.digest() != found.digest():
        raise Differs(f"the copy of the messages {start} to {end - 1} is not like them")
    return Copied(messages, given.hexdigest())


def _items(page: RawPage) -> tuple[list[int], list[int | bytes]]:
    """Ranks, and rank and envelope of each message that is still there."""
    ranks: list[int] = []
    items: list[int | bytes] = []
    for rank, envelope in zip(page.ranks, page.envelopes, strict=True):
        if envelope is not None:
            ranks.append(rank)
            items += (rank, envelope)
    return ranks, items


def _flat(ranks: Sequence[int], envelopes: Sequence[int | bytes | None]) -> bytes:
    """What a checksum is made of; no two contents are alike."""
    texts = [envelope if isinstance(envelope, bytes) else b"" for envelope in envelopes]
    sizes = ",".join(
        f"{rank}:{len(text)}" for rank, text in zip(ranks, texts, strict=True)
    ).encode()
    return b"".join([sizes, b";", *texts])
