# SPDX-License-Identifier: Apache-2.0
"""Messages and notices on their way to one subscriber."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from zaqar_redis.notify.target import Delivery
from zaqar_redis.records import Message, Subscription
from zaqar_redis.service.subscription_options import SubscriptionOptions
from zaqar_redis.storage.deliveries import EnteredMessage, PendingDelivery


@dataclass(slots=True, eq=False)
class EntryWork:
    """An entry, and how many deliveries of it are not made yet."""

    id: bytes
    #: bytes of its messages
    size: int
    #: the event loop's time
    began: float
    left: int = 0


class Item:
    """A message, or a notice, on its way to the subscriber."""

    __slots__ = ("alone", "attempts", "entry", "epoch", "message", "pending", "size", "stored")

    def __init__(
        self,
        epoch: str,
        stored: EnteredMessage | None,
        message: Message | None,
        entry: EntryWork | None = None,
        pending: PendingDelivery | None = None,
    ) -> None:
        """*message* is *stored*, decrypted; *entry* or *pending* says where it comes from."""
        self.epoch = epoch
        self.stored = stored
        self.message = message
        self.entry = entry
        self.pending = pending
        self.attempts = pending.attempts if pending is not None else 0
        #: it was refused together with others, and is tried by itself
        self.alone = False
        #: bytes
        self.size = stored.size if stored is not None else len(self.notice)

    @property
    def began(self) -> float:
        """The event loop's time when its entry was read; the store has what has no entry."""
        return self.entry.began if self.entry is not None else math.inf

    @property
    def key(self) -> str:
        if self.pending is not None:
            return self.pending.key
        return f"{self.stored.message.rank:016d}" if self.stored is not None else ""

    @property
    def expires(self) -> int:
        if self.stored is not None:
            return self.stored.message.expires
        return self.pending.expires if self.pending is not None else 0

    @property
    def notice(self) -> bytes:
        return self.pending.notice if self.pending is not None else b""

    @property
    def is_replayed(self) -> bool:
        return self.pending is not None and self.pending.replayed

    @property
    def is_single(self) -> bool:
        """Whether no other message goes out together with it."""
        return self.alone or self.is_replayed or self.message is None

    def new_pending(self, subscription: str, status: int = 0, error: str = "") -> PendingDelivery:
        """Returns it as it is stored first; *status* and *error*: why it was given up."""
        return PendingDelivery(
            subscription,
            self.key,
            self.expires,
            epoch=self.epoch,
            stored=self.stored,
            status=status,
            error=error,
        )


def delivery_of(
    chunk: Sequence[Item],
    source: tuple[str, str],
    subscription: Subscription,
    options: SubscriptionOptions,
) -> Delivery:
    """Returns the delivery of these items; *source*: project and queue."""
    first = chunk[0]
    return Delivery(
        *source,
        subscription,
        options,
        [item.message for item in chunk if item.message is not None],
        [item.stored.message for item in chunk if item.stored is not None],
        first.epoch,
        first.notice,
        f"{subscription.id}.{_delivery_name(chunk)}",
        first.is_replayed,
    )


def _delivery_name(chunk: Sequence[Item]) -> str:
    """Returns what names these deliveries among those of the subscription, in each attempt.

    Others may be with them in the next attempt.  That gets another name: a receiver that has had
    the first one would else think that it has had all of them.
    """
    names = [item.message.id if item.message is not None else item.key for item in chunk]
    if len(names) == 1:
        return names[0]
    return hashlib.blake2b(" ".join(names).encode(), digest_size=16).hexdigest()
