# SPDX-License-Identifier: Apache-2.0
"""A transport for kombu, so that Celery runs on queues of zaqar_redis.

import zaqar_redis_client.kombu  # kombu knows zaqar-redis:// from now on

app = Celery(broker="zaqar-redis://127.0.0.1:8888/demo")

Messages are claimed, and deleted when they are acknowledged; until then their leases are renewed.
Both happen in the event loop of the client's thread, which also waits for messages.  What comes
is put into the channel, and a byte into a socket: for that the consumer waits, alone or in a hub.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime, timedelta
from multiprocessing.util import Finalize
from queue import Empty
from typing import Any

from amqp.protocol import queue_declare_ok_t
from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.transport.base import to_rabbitmq_queue_arguments
from kombu.utils.json import dumps

from zaqar_redis_client.blocking import _Loop
from zaqar_redis_client.clients import AsyncClient
from zaqar_redis_client.errors import NotFound, Refused, Unavailable, Unsupported, ZaqarError
from zaqar_redis_client.kombu_bindings import Bindings, known_name
from zaqar_redis_client.queues import AsyncClaim, AsyncLease
from zaqar_redis_client.records import Draft, Message

TRANSPORT_ALIASES["zaqar-redis"] = f"{__name__}:Transport"

#: Messages of a claim at most: `max_messages_per_claim_or_pop` of a service with the defaults.
_CLAIM = 20
#: Seconds of a long poll.
_WAIT = 20.0
#: Seconds of a lease, if the option `visibility_timeout` is not given: what Zaqar takes at least.
_LEASE = 60
#: Seconds that a message lives: what a service with the defaults takes at most.
_TTL = 1_209_600
#: Seconds for which a request is tried while the service is away: then Celery reconnects.
_RETRY_FOR = 10.0
#: Acknowledgements on their way, at most: those of one worker with all that it may prefetch.
_ACKS = 1000
#: Publications that may have been done, whose keys are kept for kombu's next attempt.
_UNCERTAIN = 1000
#: Seconds that a channel waits for its last requests when it is closed.
_LAST = 5.0
#: `deliver_at` is at most a year ahead; Celery's worker waits for the rest.
_YEAR = timedelta(days=365)

logger = logging.getLogger(__name__)

#: The clients by process, URL, project and token.  Those of a process that has forked stay: closed
#: or collected in the child, they would take the parent's connections out of its event loop.
_clients: dict[tuple[Any, ...], AsyncClient] = {}
#: For the same reason what runs stays.
_tasks: set[asyncio.Task[None]] = set()


def _close_clients() -> None:
    for key, client in [*_clients.items()]:
        if key[0] == os.getpid():
            _Loop.run(client.close())


def _start(coroutine: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
    return asyncio.run_coroutine_threadsafe(coroutine, _Loop._loop())


class QoS(virtual.QoS):
    """What was delivered and is not acknowledged."""

    def ack(self, delivery_tag: str) -> None:
        self.channel.done(delivery_tag)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        if not requeue:
            self.channel.done(delivery_tag)
        super().reject(delivery_tag, requeue=requeue)

    def restore_unacked(self) -> list[Any]:
        self._flush()
        tags = [*self._delivered]
        self._delivered.clear()
        self.channel.give_back(tags)
        return []


class Channel(virtual.Channel):
    """Consumers and what they have been given.

    Methods that are coroutines run in the event loop of the client.
    """

    QoS = QoS
    supports_fanout = True
    body_encoding = None
    max_priority = 31

    def __init__(self, connection: Transport, **options: Any) -> None:
        super().__init__(connection, **options)
        self._pid = os.getpid()
        self._client = connection.service()
        self._bindings = Bindings(self._client)
        self._lease = int(connection.client.transport_options.get("visibility_timeout") or _LEASE)
        #: by delivery tag; as many as the prefetch count, or 20 for each consumer without one
        self._leases: dict[str, AsyncLease] = {}
        #: what was claimed and not delivered, with its queue: part of the above
        self._arrived: deque[tuple[str, dict[str, Any]]] = deque()
        self._room = asyncio.Event()
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._unacknowledged: set[str] = set()
        self._acks: set[concurrent.futures.Future[None]] = set()
        #: of queues that expire: seconds, and whether they go with this channel
        self._renewal: asyncio.Task[None] | None = None
        self._declared: set[str] = set()
        self._auto_delete: set[str] = set()
        self._consumed: set[str] = set()

    # Messages that leave.

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[Any, str]:
        """Leaves text as it is, so that others can read it."""
        if isinstance(body, bytes):
            try:
                return body.decode(), "utf-8"
            except UnicodeDecodeError:
                return super().encode_body(body, "base64")
        return super().encode_body(body, encoding or "utf-8")

    def _inplace_augment_message(self, message: Any, exchange: str, routing_key: str) -> None:
        # kombu tries again with the same properties: then it is the same message.
        tag = message["properties"].get("delivery_tag")
        super()._inplace_augment_message(message, exchange, routing_key)
        if tag in self.connection.uncertain:
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
        target = self._client.queue(known_name(queue))
        try:
            _Loop.run(target._post([document], key=tag))
        except Unavailable as error:
            if error.may_be_done:
                self.connection.uncertain.append(tag)
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
        (self._unacknowledged.add if no_ack else self._unacknowledged.discard)(queue)
        self._consumed.add(queue)
        _Loop.run(self._begin(consumer_tag, queue, no_ack))

    async def _begin(self, consumer_tag: str, queue: str, no_ack: bool) -> None:
        self._pumps[consumer_tag] = _task(self._pump(queue, no_ack))

    async def _pump(self, queue: str, no_ack: bool) -> None:
        """Claims messages whenever there is room for them."""
        source, since = self._client.queue(known_name(queue)), None
        while True:
            room = self._free(no_ack)
            if room < 1:
                self._room.clear()
                await self._room.wait()
                continue
            limit = max(1, min(_CLAIM, room // max(len(self._pumps), 1)))
            try:
                grace = max(60, self._lease)
                claim = await source.claim(limit, ttl=self._lease, grace=grace, wait=_WAIT)
            except Unavailable as error:
                since = since or time.monotonic()
                if time.monotonic() - since < _RETRY_FOR and error.may_be_done:
                    await asyncio.sleep(1)
                    continue
                return self.connection.fail(error)
            except ZaqarError as error:
                return self.connection.fail(error)
            since = None
            if claim:
                await self._receive(claim, queue, no_ack)

    def _free(self, no_ack: bool) -> int:
        count = 0 if no_ack else self.qos.prefetch_count
        return count - len(self._leases) if count else _CLAIM - len(self._arrived)

    async def _receive(self, claim: AsyncClaim, queue: str, no_ack: bool) -> None:
        room = self._free(no_ack)
        claim.ends_when_empty(_task(claim.keep()))
        for message in claim.messages[:room]:
            tag = self._keep(AsyncLease(claim, message))
            if _is_expired(message):
                self.done(tag)
            else:
                self._arrived.append((queue, _payload(message, tag)))
        self.connection.wake()
        # Other consumers of the channel were faster: their messages take the room.
        surplus = [message.id for message in claim.messages[room:]]
        if surplus:
            with contextlib.suppress(ZaqarError):  # they come back when the lease ends
                await claim.release(surplus, delay=0)

    def _keep(self, lease: AsyncLease) -> str:
        tag = f"{lease.claim.id}/{lease.message.id}"
        self._leases[tag] = lease
        return tag

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        payload = _Loop.run(self._get_one(queue))
        if payload is None:
            raise Empty
        return payload

    async def _get_one(self, queue: str) -> dict[str, Any] | None:
        while True:
            source = self._client.queue(known_name(queue))
            claim = await source.claim(ttl=self._lease, grace=max(60, self._lease))
            if claim is None:
                return None
            claim.ends_when_empty(_task(claim.keep()))
            (message,) = claim.messages
            tag = self._keep(AsyncLease(claim, message))
            if not _is_expired(message):
                return _payload(message, tag)
            self.done(tag)

    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Any:
        message = super().basic_get(queue, no_ack=no_ack, **options)
        if message is not None and no_ack:
            self.done(message.delivery_tag)
        return message

    def deliver(self) -> bool:
        """Gives consumers what has arrived; returns whether there was anything."""
        found = False
        while self._arrived and not self.closed:
            queue, payload = self._arrived[0]
            no_ack = queue in self._unacknowledged
            if not (no_ack or self.qos.can_consume()):
                break
            self._arrived.popleft()
            found = True
            try:
                self.connection._deliver(payload, queue)
            finally:
                if no_ack:
                    self.done(payload["properties"]["delivery_tag"])
        if found:
            self._has_room()
        return found

    # What becomes of them.

    def done(self, delivery_tag: str) -> None:
        """Deletes a message, in the background."""
        lease = self._leases.get(delivery_tag)
        if lease is None:
            return
        if len(self._acks) >= _ACKS:
            concurrent.futures.wait(self._acks, return_when=concurrent.futures.FIRST_COMPLETED)
        future = _start(self._ack(delivery_tag, lease))
        self._acks.add(future)
        future.add_done_callback(self._acks.discard)

    async def _ack(self, delivery_tag: str, lease: AsyncLease) -> None:
        try:
            await lease.ack()
        except ZaqarError as error:
            logger.warning("Message %s may be delivered again: %s", lease.message.id, error)
        finally:
            self._forget([delivery_tag])

    def _forget(self, delivery_tags: Iterable[str]) -> None:
        for tag in delivery_tags:
            self._leases.pop(tag, None)
        self._room.set()
        if self._arrived and self.connection:
            self.connection.wake()

    def _has_room(self) -> None:
        _Loop._loop().call_soon_threadsafe(self._room.set)

    def basic_qos(self, *args: Any, **options: Any) -> None:
        super().basic_qos(*args, **options)
        self._has_room()

    def _restore(self, message: Any) -> None:
        self.give_back([message.delivery_tag])

    def give_back(self, delivery_tags: list[str]) -> None:
        if delivery_tags and self._pid == os.getpid():
            _Loop.run(self._release(delivery_tags))

    async def _release(self, delivery_tags: Iterable[str]) -> None:
        """Makes messages available to others.  If that fails, they are when their leases end."""
        known = {tag: self._leases[tag] for tag in delivery_tags if tag in self._leases}
        releases = [lease.release(delay=0) for lease in known.values()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST):
                await asyncio.gather(*releases, return_exceptions=True)
        self._forget(known)

    def basic_cancel(self, consumer_tag: str) -> None:
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if consumer_tag in self._pumps and self._pid == os.getpid():
            _Loop.run(self._end(consumer_tag, queue))

    async def _end(self, consumer_tag: str, queue: str | None) -> None:
        pump = self._pumps.pop(consumer_tag)
        pump.cancel()
        await asyncio.wait([pump])
        back = [each for each in self._arrived if each[0] == queue]
        for each in back:
            self._arrived.remove(each)
        await self._release([payload["properties"]["delivery_tag"] for _, payload in back])

    def close(self) -> None:
        if self.closed:
            return
        if self._pid != os.getpid():  # it is the parent's
            self.closed = True
            return
        for consumer_tag in [*self._consumers]:
            self.basic_cancel(consumer_tag)
        concurrent.futures.wait(self._acks, timeout=_LAST)
        if self._renewal:
            _Loop.run(_stop(self._renewal))
        for queue in self._auto_delete & self._consumed:
            with contextlib.suppress(ZaqarError):
                self.queue_delete(queue)
        super().close()

    # Queues and bindings.

    def prepare_queue_arguments(self, arguments: Any, **options: Any) -> Any:
        return to_rabbitmq_queue_arguments(arguments, **options)

    def queue_declare(self, queue: str | None = None, passive: bool = False, **options: Any) -> Any:
        # Celery declares the queue of its results anew for each task.
        if queue in self._declared:
            with contextlib.suppress(NotFound):
                return queue_declare_ok_t(queue, self._waiting(queue), 0)
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
        for argument, name in (("x-max-length", "_max_messages"), ("x-max-length-bytes", "_max_bytes")):
            if known.get(argument):
                metadata |= {name: int(known[argument]), "_overflow": "drop_oldest"}
        _Loop.run(self._client.queue(known_name(queue)).create(**metadata))
        if auto_delete:
            self._auto_delete.add(queue)
        expires = known.get("x-expires")
        if expires or auto_delete:
            self._bindings.expires(queue, int(expires or 0) / 1000)
            _Loop.run(self._keep_bindings(queue))

    async def _keep_bindings(self, queue: str) -> None:
        await self._bindings.renew(queue)
        if self._renewal is None:
            self._renewal = _task(self._bindings.keep())

    def _has_queue(self, queue: str, **_: Any) -> bool:
        try:
            _Loop.run(self._client.queue(known_name(queue)).stats())
        except NotFound:
            return False
        return True

    def _size(self, queue: str) -> int:
        with contextlib.suppress(NotFound):
            return self._waiting(queue)
        return 0

    def _waiting(self, queue: str) -> int:
        found = _Loop.run(self._client.queue(known_name(queue)).stats())["messages"]
        return int(found["free"] - found.get("delayed", 0))

    def _purge(self, queue: str) -> int:
        size = self._size(queue)
        _Loop.run(self._client.queue(known_name(queue)).purge())
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
        _Loop.run(self._client.queue(known_name(queue)).delete())

    def exchange_delete(self, exchange: str, *_: Any, **__: Any) -> None:
        self.state.exchanges.pop(exchange, None)
        _Loop.run(self._bindings.delete(exchange))


class Transport(virtual.Transport):
    """A connection: `zaqar-redis://[:token@]host[:port]/project`."""

    Channel = Channel
    default_port = 8888
    driver_type = "zaqar-redis"
    driver_name = "zaqar-redis-client"
    connection_errors = (*virtual.Transport.connection_errors, Unavailable, OSError)
    channel_errors = (*virtual.Transport.channel_errors, Refused, Unsupported)
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset({"direct", "topic", "fanout"})
    )

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        self.uncertain: deque[str] = deque(maxlen=_UNCERTAIN)
        self._error: ZaqarError | None = None
        self._hub: Any = None
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def service(self) -> AsyncClient:
        """Returns the client of this process, which all connections share."""
        params = self.client
        scheme = "https" if params.ssl else "http"
        url = f"{scheme}://{params.hostname or '127.0.0.1'}:{params.port or self.default_port}"
        project = (params.virtual_host or "/").strip("/") or None
        key = (os.getpid(), url, project, params.password)
        if key not in _clients:
            if not any(known[0] == key[0] for known in _clients):
                # After those of `virtual.QoS`, which have a higher priority.
                Finalize(None, _close_clients, exitpriority=0)
            _clients[key] = AsyncClient(
                url, project, credential=params.password or None, retry_for=_RETRY_FOR
            )
        return _clients[key]

    def establish_connection(self) -> Transport:
        _Loop.run(self._ping())
        return super().establish_connection()

    async def _ping(self) -> None:
        connection = self.service()._connection
        timeout = self.client.connect_timeout or _RETRY_FOR
        try:
            async with asyncio.timeout(timeout):
                answer = await connection._once("GET", "/v2/ping", None, None, 0)
        except TimeoutError as error:
            raise Unavailable(f"no answer for {timeout:g} seconds", may_be_done=False) from error
        except OSError as error:
            raise Unavailable(str(error), may_be_done=False) from error
        if answer.status >= 500:
            raise Unavailable(f"the service answers {answer.status}", may_be_done=False)

    # The consumer waits for a byte.

    def wake(self) -> None:
        with contextlib.suppress(OSError):  # full: a byte is there; closed: nobody waits
            self._writer.send(b"\0")

    def fail(self, error: ZaqarError) -> None:
        self._error = error
        self.wake()

    def _deliver_all(self) -> bool:
        found = [channel.deliver() for channel in [*self.channels]]
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return any(found)

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        while not self._deliver_all():
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"nothing came within {timeout:g} seconds")
            self._reader.settimeout(left)
            self._reader.recv(4096)

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        self._hub = loop
        loop.add_reader(self._reader.fileno(), self._on_readable)
        self.wake()

    def _on_readable(self) -> None:
        self._reader.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)
        self._deliver_all()

    def close_connection(self, connection: Any) -> None:
        if self._hub is not None:
            self._hub.remove_reader(self._reader.fileno())
            self._hub = None
        super().close_connection(connection)
        self._reader.close()
        self._writer.close()


def _task(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(coroutine)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


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


def _is_expired(message: Message) -> bool:
    properties = message.body.get("properties") if isinstance(message.body, dict) else None
    expiration = (properties or {}).get("expiration")
    return expiration is not None and message.age * 1000 >= int(expiration)


def _payload(message: Message, tag: str) -> dict[str, Any]:
    """Returns a message as kombu knows it; the body of one that others have posted is all JSON."""
    body = message.body
    if not (isinstance(body, dict) and "body" in body and "properties" in body):
        body = {
            "body": body if isinstance(body, bytes) else json.dumps(body),
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "headers": {},
            "properties": {},
        }
    properties = body["properties"]
    properties["delivery_tag"] = tag
    info = properties.setdefault("delivery_info", {})
    info["redelivered"] = message.claim_count > 1
    return body
