# SPDX-License-Identifier: Apache-2.0
"""The deliveries to single subscriptions, in Redis."""

from __future__ import annotations

from collections.abc import Sequence

from zaqar_redis.keyspace import envelope, keys
from zaqar_redis.keyspace.script import Argument, RedisCommand, Script, Steps, verb
from zaqar_redis.records import Message
from zaqar_redis.storage.deliveries import DeliveryState, EnteredMessage, PendingDelivery
from zaqar_redis.storage.redis import identity, pending_records
from zaqar_redis.storage.redis.resource import RedisResource

_SEND_NOTICE = Script("delivery_send_notice")
_ENQUEUE_MESSAGES = Script("delivery_enqueue_messages")
_REPLAY = Script("delivery_replay")

#: Deliveries that were given up read in one step of a replay: a millisecond of Redis' time.
_REPLAY_STEP = 200


class RedisSubscriptionDeliveries(RedisResource):
    @verb
    def send_notice(
        self, project: str, queue: str, subscription: str, notice: bytes, ttl: int
    ) -> Steps[bool]:
        now = yield from self._time()
        expires = now + ttl * 1000
        # Keys of messages are numbers, which come later: who reads on from this one finds them.
        key = f"!notice-{identity.new_claim()}"
        pending = PendingDelivery(subscription, key, expires, notice=notice, due=now)
        known = yield _SEND_NOTICE(
            keys.of_queue(project, queue),
            now=self._now(),
            id=subscription,
            key=key,
            ends=expires,
            record=pending_records.encoded(pending, pending_records.WAITS),
        )
        return bool(known)

    @verb
    def replay(self, project: str, queue: str, subscription: str) -> Steps[int]:
        cursor: bytes = b"0"
        total = 0
        while True:
            cursor, count = yield _REPLAY(
                keys.of_queue(project, queue),
                now=self._now(),
                id=subscription,
                cursor=cursor,
                limit=_REPLAY_STEP,
            )
            total += int(count)
            if cursor == b"0":
                return total

    @verb
    def enqueue_messages(
        self, project: str, queue: str, subscription: str, messages: Sequence[Message]
    ) -> Steps[int]:
        rest: list[Argument] = []
        for message in messages:
            pending = _replayed(subscription, message)
            record = pending_records.encoded(pending, pending_records.WAITS)
            rest += (pending.key, pending.expires, record)
        count = yield _ENQUEUE_MESSAGES(
            keys.of_queue(project, queue), *rest, now=self._now(), id=subscription
        )
        return int(count)

    @verb
    def states(
        self, project: str, queue: str, subscriptions: Sequence[str]
    ) -> Steps[Sequence[DeliveryState]]:
        of_queue = keys.of_queue(project, queue)
        # Keys of messages are numbers: notices are in no count.
        answers = yield [
            command
            for id in subscriptions
            for command in (
                RedisCommand("HMGET", of_queue.delivery_states, *pending_records.state_fields(id)),
                RedisCommand("ZLEXCOUNT", of_queue.pending_ids, f"[{id} 0", f"({id} :"),
            )
        ]
        return [_state(*each) for each in zip(answers[::2], answers[1::2], strict=True)]

    def _time(self) -> Steps[int]:
        now = self._now()
        if now:
            return now
        seconds, micros = yield RedisCommand("TIME")
        return int(seconds) * 1000 + int(micros) // 1000


def _replayed(subscription: str, message: Message) -> PendingDelivery:
    epoch, rank = identity.parse_message_id(message.id)
    draft = message.copied(message.origin, message.hops)
    front = envelope.front(message.created, message.expires, message.ttl, message.delay)
    stored = EnteredMessage(message, front + envelope.tail(draft, message.client))
    return PendingDelivery(
        subscription, f"{rank:016d}", message.expires, epoch, stored, replayed=True
    )


def _state(fields: Sequence[bytes | None], pending: int) -> DeliveryState:
    *counts, last, failing = fields
    delivered, failed, retried = (int(count or 0) for count in counts)
    at, status, error = (last or b"0 0 ").split(b" ", 2)
    failure = int(at), error.decode(), int(status), int(failing or 0)
    return DeliveryState(delivered, failed, retried, pending, *failure)
