# SPDX-License-Identifier: Apache-2.0
"""A store and the model, with the same queues, and how they are compared."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from itertools import chain
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from tests.contract.model import ModelMessage, ModelQueue, ReferenceModel
from tests.support.stores import ContractStore, findings
from zaqar_redis import message_fields
from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.records import Message, NewMessage
from zaqar_redis.storage.redis import identity

NAMES = (
    *("plain", "delayed", "strict", "dead", "backing", "full", "narrow"),
    *("ranked", "aging", "lines", "both", "heavy", "weighty"),
    *(FAIR := ("turns", "shares", "rests")),
)


def seen(message: Message) -> tuple[Any, ...]:
    """Returns what a client sees of a message, but for its dedup id."""
    return (
        message.rank,
        json.loads(message.body),
        message.created,
        message.ttl,
        message.expires,
        message.delay,
        message.claim_id,
        message.origin,
        message_fields.shown(message.attributes or {}) | {"dedup_id": None},
    )


def stored_size(message: NewMessage) -> int:
    """Returns the bytes of its envelope."""
    return len(envelope.front(0, 0, 0, 0) + envelope.tail(message, bytes(16)))


class ComparedStore(RuleBasedStateMachine):
    """The store, the model, and what both are given."""

    store: ContractStore

    def __init__(self) -> None:
        super().__init__()
        self.store.reset()  # the checker reads the whole store
        self.store.project = f"model-{uuid.uuid4()}"
        self.model = ReferenceModel()
        self.model.now = self.store.clock.now
        self.number = 0
        self.ids: dict[str, dict[int, str]] = {}
        self.prepare("delayed", delay=45)
        self.prepare("strict", most=2, dead_queue="dead", dead_ttl=100, redelivery=7)
        self.prepare("backing", redelivery=20)
        self.prepare("full", limit=4)
        self.prepare("narrow", limit=5, drops=True)
        self.prepare("ranked", limit=8, drops=True, step=2**48)
        self.prepare("heavy", most_bytes=300)
        self.prepare("weighty", limit=5, most_bytes=350, drops=True, step=2**48)
        self.prepare("aging", step=2)
        self.prepare("lines", most=2, dead_queue="dead", redelivery=20, ordered=True)
        self.prepare("both", step=2**48, ordered=True)
        weights = {"b": 3, "ab": 2}
        self.prepare("turns", fair=True, weights=weights, most=2, dead_queue="dead")
        self.prepare("shares", fair=True, concurrency=2, redelivery=20, weights=weights)
        self.prepare("rests", fair=True, concurrency=2, rate=1 / 45)

    def prepare(
        self,
        name: str,
        delay: int = 0,
        most: int | None = None,
        dead_queue: str = "",
        dead_ttl: int | None = None,
        redelivery: int = 0,
        limit: int = 0,
        drops: bool = False,
        step: int = 0,
        ordered: bool = False,
        fair: bool = False,
        concurrency: int = 0,
        weights: dict[str, int] | None = None,
        rate: float = 0,
        most_bytes: int = 0,
    ) -> None:
        self.model.queues[name] = ModelQueue(
            delay,
            most,
            dead_queue,
            dead_ttl,
            redelivery,
            limit,
            drops,
            step,
            ordered,
            fair,
            concurrency,
            weights or {},
            1000 / rate if rate else 0,
        )
        self.model.queues[name].most_bytes = most_bytes
        growing = {"minimum_delay": redelivery, "backoff_function": "linear"}
        self.store.create(
            name,
            _default_message_delay=delay,
            _max_claim_count=most,
            _dead_letter_queue=dead_queue or None,
            _dead_letter_queue_messages_ttl=dead_ttl,
            _redelivery_delay=growing if redelivery else None,
            _max_messages=limit or None,
            _max_bytes=most_bytes or None,
            _overflow="drop_oldest" if drops else None,
            _priorities="strict" if step == 2**48 else step or None,
            _group_mode="ordered" if ordered else "fair" if fair else None,
            _group_concurrency=concurrency or None,
            _group_weights=weights,
            _group_rate=rate or None,
        )

    def teardown(self) -> None:
        """Checks that the stored data are consistent."""
        assert findings(self.store) == []
        self.store.reset()

    def view(self, entries: Iterable[ModelMessage]) -> list[tuple[Any, ...]]:
        return [
            (
                entry.rank,
                entry.body,
                entry.created,
                entry.ttl,
                entry.expires,
                entry.delay,
                entry.claim if self.model.is_held(entry) else None,
                entry.origin,
                {
                    **({"priority": entry.priority} if entry.priority else {}),
                    **({"group": entry.group} if entry.group else {}),
                    "dedup_id": None,
                },
            )
            for entry in entries
        ]

    def sizes(self, queue: str) -> dict[int, int]:
        """Returns the bytes of each message, by rank, where they count."""
        known = self.model.queues.get(queue)
        if not known or not known.most_bytes:
            return {}
        bodies = keys.of_queue(self.store.project, queue).bodies
        found = [*chain.from_iterable(self.store.command("HGETALL", bodies))]
        return dict(zip(map(int, found[::2]), map(len, found[1::2]), strict=True))

    def some_id(self, queue: str, rank: int) -> str:
        """Returns an id of the queue; its message may have been deleted or never existed."""
        known = self.ids.get(queue)
        if not known:
            return str(uuid.UUID(int=rank))
        epoch, _ = identity.parse_message_id(next(iter(known.values())))
        return identity.message_id(identity.prefix(epoch), rank)

    def some_of(self, queue: str, claim: str, places: list[int]) -> tuple[list[int], list[str]]:
        """Returns ranks that the claim got, or one that it did not, and their ids."""
        known = self.model.queues.get(queue)
        lease = known.leases.get(claim) if known else None
        got = lease.ranks if lease else []
        ranks = [got[place] for place in places if place < len(got)] or [1]
        return (
            ranks if self.ids.get(queue) else [],
            [self.some_id(queue, rank) for rank in ranks],
        )

    def ranks_of(self, ids: Iterable[str] | None) -> list[int] | None:
        if ids is None:
            return None
        return sorted(identity.parse_message_id(each)[1] for each in ids)
