# SPDX-License-Identifier: Apache-2.0
"""A channel of kombu: queues and exchanges of AMQP as queues of the service."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from datetime import UTC, datetime, timedelta
from queue import Empty
from typing import TYPE_CHECKING, Any

from amqp.protocol import queue_declare_ok_t
from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments
from kombu.utils.json import dumps

from zaqar_redis_client.blocking import _Loop
from zaqar_redis_client.claims import started
from zaqar_redis_client.errors import NotFound, Unavailable
from zaqar_redis_client.kombu_bindings import Bindings, known_name
from zaqar_redis_client.kombu_deliveries import Deliveries, at_last
from zaqar_redis_client.queues import AsyncQueue
from zaqar_redis_client.records import Draft

if TYPE_CHECKING:
    from zaqar_redis_client.kombu import Transport

#: Seconds of a lease without the option `visibility_timeout`: what Zaqar takes at least.
_LEASE = 60
#: Seconds that a message lives, if its queue does not say: what a service with the defaults takes.
_TTL = 1_209_600
#: Seconds that a queue outlives its process at most, if it should end with its consumer.
_TRANSIENT = 600.0
#: `deliver_at` is at most a year ahead; Celery's worker waits for the rest.
_YEAR = timedelta(days=365)
#: Arguments of a queue that are metadata here.
_LIMITS = {"x-max-length": "_max_messages", "x-max-length-bytes": "_max_bytes"}
#: Delivery tags of publications that may have been done, for one of their queues at least, until
#: kombu tries again, over another connection perhaps: more than threads of one process publish at
#: a time.
_uncertain: deque[str] = deque(maxlen=1000)


class QoS(virtual.QoS):
    """What was delivered and is not acknowledged."""

    def ack(self, delivery_tag: str) -> None:
        self.channel.deliveries.done(delivery_tag)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        if not requeue:
            self.channel.deliveries.done(delivery_tag)
        super().reject(delivery_tag, requeue=requeue)

    def restore_unacked(self) -> list[Any]:
        self._flush()
        tags = [*self._delivered]
        self._delivered.clear()
        self.channel.give_back(tags)
        return []


class Channel(virtual.Channel):
    """Consumers, and what they hold."""

    QoS = QoS
    closed: bool
    supports_fanout = True
    body_encoding = "utf-8"
    max_priority = 31

    def __init__(self, connection: Transport, **options: Any) -> None:
        super().__init__(connection, **options)
        self._pid = os.getpid()
        self._client = connection.service()
        self._lease = int(connection.client.transport_options.get("visibility_timeout") or _LEASE)
        self.deliveries = Deliveries(
            self._client,
            self._lease,
            prefetch=lambda: int(self.qos.prefetch_count),
            wake=connection.wake,
            fail=connection.fail,
        )
        self._bindings = Bindings(self._client)
        self._renewal: asyncio.Task[None] | None = None
        #: queues
        self._declared: set[str] = set()
        self._auto_delete: set[str] = set()
        self._consumed: set[str] = set()

    # Messages that leave.

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[Any, str]:
        """Leaves text as it is, so that others can read it."""
        if isinstance(body, bytes) and encoding == self.body_encoding == "utf-8":
            try:
                return body.decode(), "utf-8"
            except UnicodeDecodeError:
                encoding = "base64"
        encoded: tuple[Any, str] = super().encode_body(body, encoding)
        return encoded

    def _inplace_augment_message(self, message: Any, exchange: str, routing_key: str) -> None:
        # kombu tries again with the same properties: then it is the same message.
        tag = message["properties"].get("delivery_tag")
        super()._inplace_augment_message(message, exchange, routing_key)
        if tag in _uncertain:
            message["properties"]["delivery_tag"] = tag

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:
        draft = Draft(
            body=message,
            ttl=_seconds(message["properties"].get("expiration")),
            deliver_at=_eta(message.get("headers") or {}),
            priority=self._get_message_priority(message) or None,
        )
        document = dumps(draft.document()).encode()
        tag = message["properties"]["delivery_tag"]
        try:
            _Loop.run(self._queue(queue)._post([document], key=tag))
        except Unavailable:
            _uncertain.append(tag)
            raise

    def _put_fanout(
        self, exchange: str, message: dict[str, Any], routing_key: str, **_: Any
    ) -> None:
        for queue in self._lookup(exchange, routing_key):
            self._put(queue, message)

    # Messages that come.

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **options: Any
    ) -> None:
        super().basic_consume(queue, no_ack, callback, consumer_tag, **options)
        self._consumed.add(queue)
        self.deliveries.begin(consumer_tag, queue, no_ack=no_ack)

    def basic_cancel(self, consumer_tag: str) -> None:
        super().basic_cancel(consumer_tag)
        if self._is_own:
            self.deliveries.end(consumer_tag)

    def basic_qos(self, *args: Any, **options: Any) -> None:
        super().basic_qos(*args, **options)
        self.deliveries.has_room()

    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Any:
        message = super().basic_get(queue, no_ack=no_ack, **options)
        if message is not None and no_ack:
            self.deliveries.done(message.delivery_tag)
        return message

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        payload = _Loop.run(self.deliveries.get(queue))
        if payload is None:
            raise Empty
        return payload

    def deliver(self) -> bool:
        """Gives consumers what has arrived; returns whether there was anything."""
        found = False
        while not self.closed and (taken := self.deliveries.take(self.qos.can_consume)):
            found, (queue, is_acknowledged, payload) = True, taken
            try:
                self.connection._deliver(payload, queue)
            finally:
                if not is_acknowledged:
                    self.deliveries.done(payload["properties"]["delivery_tag"])
        return found

    def _restore(self, message: Any) -> None:
        self.give_back([message.delivery_tag])

    def give_back(self, delivery_tags: list[str]) -> None:
        if delivery_tags and self._is_own:
            self.deliveries.give_back(delivery_tags)

    def close(self) -> None:
        if self.closed:
            return
        if not self._is_own:
            self.closed = True
            return
        for consumer_tag in [*self._consumers]:
            self.basic_cancel(consumer_tag)
        self.deliveries.flush()
        if self._renewal:
            _Loop._loop().call_soon_threadsafe(self._renewal.cancel)
        for queue in self._auto_delete & self._consumed:
            at_last(self._bindings.forget(queue), self._queue(queue).delete())
        super().close()

    @property
    def _is_own(self) -> bool:
        """Whether it is of this process, and not of that which has forked it."""
        return self._pid == os.getpid()

    # Queues and bindings.

    def _queue(self, name: str) -> AsyncQueue:
        return self._client.queue(known_name(name))

    def prepare_queue_arguments(self, arguments: Any, **options: Any) -> Any:
        return to_rabbitmq_queue_arguments(arguments, **options)

    def queue_declare(self, queue: str | None = None, passive: bool = False, **options: Any) -> Any:
        # Celery declares the queue of its results anew for each task.
        if queue in self._declared and (waiting := self._waiting(queue)) is not None:
            return queue_declare_ok_t(queue, waiting, 0)
        found = super().queue_declare(queue, passive, **options)
        if not passive:
            self._declared.add(found.queue)
        return found

    def _new_queue(
        self, queue: str, auto_delete: bool = False, arguments: Any = None, **_: Any
    ) -> None:
        known = arguments or {}
        metadata: dict[str, Any] = {
            "_default_message_ttl": _seconds(known.get("x-message-ttl")) or _TTL
        }
        if self._lease < _LEASE:
            metadata["_min_claim_ttl"] = self._lease
        if known.get("x-max-priority"):
            metadata["_priorities"] = "strict"
        limits = {name: known[each] for each, name in _LIMITS.items() if known.get(each)}
        if limits:
            metadata |= {**limits, "_overflow": "drop_oldest"}  # as AMQP does
        _Loop.run(self._queue(queue).create(**metadata))
        seconds = int(known.get("x-expires") or 0) / 1000
        if auto_delete:
            self._auto_delete.add(queue)
            # Its channel renews it, and should it not come to delete it, others do.
            seconds = min(seconds, _TRANSIENT) or _TRANSIENT
        if seconds:
            self._bindings.expires(queue, seconds)
            _Loop.run(self._keep_bindings(queue))

    async def _keep_bindings(self, queue: str) -> None:
        await self._bindings.renew(queue)
        if self._renewal is None:
            self._renewal = started(self._bindings.keep())

    def _has_queue(self, queue: str, **_: Any) -> bool:
        return self._waiting(queue) is not None

    def _size(self, queue: str) -> int:
        return self._waiting(queue) or 0

    def _waiting(self, queue: str) -> int | None:
        """Returns how many messages can be claimed; None: there is no queue."""
        try:
            found = _Loop.run(self._queue(queue).stats())["messages"]
        except NotFound:
            return None
        return int(found["free"] - found.get("delayed", 0))

    def _purge(self, queue: str) -> int:
        size = self._size(queue)
        _Loop.run(self._queue(queue).purge())
        return size

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **_: Any,
    ) -> None:
        exchange = exchange or "amq.direct"
        if self.state.has_binding(queue, exchange, routing_key):
            return
        meta = self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments)
        _Loop.run(self._bindings.bind(exchange, *meta))
        self.state.binding_declare(queue, exchange, routing_key, arguments)

    def queue_unbind(
        self, queue: str, exchange: str | None = None, routing_key: str = "", *_: Any, **__: Any
    ) -> None:
        exchange = exchange or "amq.direct"
        self.state.binding_delete(queue, exchange, routing_key)
        _Loop.run(self._bindings.unbind(exchange, routing_key, queue))

    def get_table(self, exchange: str) -> list[tuple[str, str | None, str]]:
        return _Loop.run(self._bindings.table(exchange))

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: Any
    ) -> None:
        if if_empty and self._size(queue):
            return
        self.state.queue_bindings_delete(queue)
        self._auto_delete.discard(queue)
        self._declared.discard(queue)
        _Loop.run(self._bindings.forget(queue))
        _Loop.run(self._queue(queue).delete())

    def exchange_delete(self, exchange: str, *_: Any, **__: Any) -> None:
        self.state.exchanges.pop(exchange, None)
        _Loop.run(self._bindings.delete(exchange))


def _seconds(milliseconds: Any) -> int | None:
    """Returns a TTL: Zaqar takes a minute at least."""
    return None if milliseconds is None else max(60, -(-int(milliseconds) // 1000))


def _eta(headers: dict[str, Any]) -> datetime | None:
    """Returns when Celery wants the task to run, if that is later."""
    try:
        eta = datetime.fromisoformat(headers["eta"])
    except (KeyError, TypeError, ValueError):
        return None
    eta = eta if eta.tzinfo else eta.replace(tzinfo=UTC)
    now = datetime.now(UTC)
    return min(eta, now + _YEAR) if eta > now else None
