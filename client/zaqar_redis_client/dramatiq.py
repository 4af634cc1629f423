# SPDX-License-Identifier: Apache-2.0
"""A broker for dramatiq: `dramatiq.set_broker(ZaqarBroker("http://127.0.0.1:8888", "demo"))`."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

from dramatiq import Broker, Consumer, Message, MessageProxy, Middleware
from dramatiq.common import xq_name
from dramatiq.errors import ConnectionClosed, DecodeError, QueueJoinTimeout, QueueNotFound

from zaqar_redis_client.blocking import Client, Queue, _Loop
from zaqar_redis_client.claims import PAGE, AsyncLease, give_back
from zaqar_redis_client.credentials import Credential
from zaqar_redis_client.errors import NotFound, Refused, Unavailable, ZaqarError
from zaqar_redis_client.jobs import LONGEST_DELAY, body_of, data_of, delayed
from zaqar_redis_client.records import DraftFields
from zaqar_redis_client.tasks import reason_of


class ZaqarBroker(Broker):
    """Keeps dramatiq's queues in one project of a service.

    *url*, *project* and *credential*: those of `Client`.  *claim_ttl*: seconds after which the
    messages of a killed worker come back; less than 60 needs the queue's `_min_claim_ttl`.
    *message_ttl*: seconds that a message waits at most; `max_message_ttl` of the service is the
    limit.  Methods raise ConnectionClosed when the service is away for 30 seconds.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8888",
        project: str | None = None,
        *,
        credential: Credential | str | None = None,
        middleware: list[Middleware] | None = None,
        claim_ttl: int = 60,
        message_ttl: int = 1_209_600,
    ) -> None:
        super().__init__(middleware)
        self.actor_options.add("broker_priority")
        self.queues: set[str] = set()
        self.claim_ttl = claim_ttl
        self._message_ttl = message_ttl
        self._new_client = functools.partial(Client, url, project, credential=credential)
        # By process: connections do not outlive a fork, and must not be closed by the child.
        self._clients: dict[int, Client] = {}

    def queue(self, name: str) -> Queue:
        """Returns the queue of the service that has the messages."""
        pid = os.getpid()
        # Of several threads the first decides: a client that was not used has nothing to close.
        client = self._clients.get(pid) or self._clients.setdefault(pid, self._new_client())
        return client.queue(name)

    def close(self) -> None:
        client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def declare_queue(self, queue_name: str) -> None:
        """Makes workers consume the queue.  It has no delay queue: the service delays messages."""
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues.add(queue_name)
            self.emit_after("declare_queue", queue_name)

    def get_declared_queues(self) -> set[str]:
        return self.queues.copy()

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 30_000) -> Consumer:
        self._require(queue_name)
        return _Consumer(self, queue_name, prefetch, timeout)

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        """Posts a message; *delay*: milliseconds, rounded up to seconds, 366 days at most."""
        self._require(message.queue_name)
        posted = message.copy()
        self.emit_before("enqueue", posted, delay)
        fields: DraftFields = {"ttl": self._message_ttl, "priority": self._priority(posted)}
        if delay is not None:
            fields |= delayed(delay / 1000)
        try:
            _post(self.queue(posted.queue_name), posted, fields)
        except BaseException as error:
            if isinstance(message, _Delivery):
                # A retry that could not be posted: dramatiq acknowledges it all the same.
                pause = min(int((delay or 0) / 1000) + 1, LONGEST_DELAY)
                release = message.lease.release
                message.finish = functools.partial(release, delay=pause, reason=reason_of(error))
            raise
        self.emit_after("enqueue", posted, delay)
        return posted

    def _priority(self, message: Message[Any]) -> int | None:
        actor = self.actors.get(message.actor_name)
        default = actor.options.get("broker_priority") if actor else None
        found = message.options.get("broker_priority", default)
        return None if found is None else int(found)

    def _require(self, queue_name: str) -> None:
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)

    def flush(self, queue_name: str) -> None:
        """Deletes the messages of a queue; its dead letters stay."""
        self._require(queue_name)
        with _connection_errors(), contextlib.suppress(NotFound):
            self.queue(queue_name).purge()

    def flush_all(self) -> None:
        for queue_name in self.get_declared_queues():
            self.flush(queue_name)

    def get_queue_message_counts(self, queue_name: str) -> tuple[int, int, int]:
        """Returns the numbers of messages that are ready, delayed, and dead."""
        counts, dead = self._counts(queue_name), self._counts(xq_name(queue_name))
        return counts["free"] - counts["delayed"], counts["delayed"], dead["total"]

    def _counts(self, queue_name: str) -> dict[str, int]:
        """Returns `free` (delayed ones included), `delayed` and `total`."""
        counts: dict[str, int] = {}
        with _connection_errors(), contextlib.suppress(NotFound):
            counts = self.queue(queue_name).stats()["messages"]
        return {name: int(counts.get(name, 0)) for name in ("free", "delayed", "total")}

    def join(self, queue_name: str, *, interval: int = 100, timeout: int | None = None) -> None:
        """Waits until the queue has no messages, delayed and unacknowledged ones included.

        *interval*, *timeout*: milliseconds.  Raises QueueJoinTimeout.
        """
        until = None if timeout is None else time.monotonic() + timeout / 1000
        while self._counts(queue_name)["total"]:
            if until is not None and time.monotonic() >= until:
                raise QueueJoinTimeout(queue_name)
            time.sleep(interval / 1000)


class _Delivery(MessageProxy):
    """A message, and the lease that its worker has."""

    def __init__(self, message: Message[Any], lease: AsyncLease) -> None:
        super().__init__(message)
        self.lease = lease
        #: what its acknowledgement does
        self.finish: Callable[[], Coroutine[Any, Any, None]] = lease.ack


class _Consumer(Consumer):
    """Claims messages for the threads of a worker, *prefetch* at most.

    One thread iterates; the threads of the worker end leases meanwhile.
    """

    def __init__(self, broker: ZaqarBroker, queue_name: str, prefetch: int, timeout: int) -> None:
        self._broker = broker
        self._queue = broker.queue(queue_name)
        self._dead_letters = broker.queue(xq_name(queue_name))
        self._prefetch = prefetch
        self._seconds = timeout / 1000
        #: `PAGE` at most
        self._claimed: deque[AsyncLease] = deque()
        #: ids of the messages that the worker has, `_prefetch` at most
        self._held: set[str] = set()
        self._changed = threading.Condition()

    def __next__(self) -> _Delivery | None:
        if not self._claimed:
            room = min(self._wait_for_room(), PAGE)
            if not room:
                return None
            # The service waits for whole seconds.
            ttl, wait = self._broker.claim_ttl, max(1, round(self._seconds))
            with _connection_errors():
                self._claimed += _Loop.run(self._queue._async._leases(room, ttl=ttl, wait=wait))
            if not self._claimed:
                return None
        lease = self._claimed[0]
        try:
            message = Message.decode(data_of(lease.body))
        except DecodeError as error:
            self._broker.logger.exception("Message %s is none of dramatiq.", lease.message.id)
            self._dead_letter(lease, lease.body, error)
            self._claimed.popleft()  # not before: `close` gives back what could not be moved
            return None
        with self._changed:
            self._held.add(self._claimed.popleft().message.id)
        return _Delivery(message, lease)

    def _wait_for_room(self) -> int:
        """Returns how many messages may be claimed; 0: none became free in time."""
        with self._changed:
            # A quarter: fewer and larger claims, while the threads still have work.
            most = self._prefetch - max(1, self._prefetch // 4)
            self._changed.wait_for(lambda: len(self._held) <= most, self._seconds)
            return self._prefetch - len(self._held)

    # A worker gives a consumer what came from it, so all of them are deliveries.

    def ack(self, message: _Delivery) -> None:  # type: ignore[override]  # its own come back
        self._end(message.lease, message.finish())

    def nack(self, message: _Delivery) -> None:  # type: ignore[override]  # its own come back
        self._dead_letter(message.lease, message._message, message._exception)

    def requeue(self, messages: Iterable[_Delivery]) -> None:  # type: ignore[override]  # its own come back
        leases = [message.lease for message in messages]
        _Loop.run(give_back(leases))
        self._forget(leases)

    def close(self) -> None:
        left, self._claimed = self._claimed, deque()
        _Loop.run(give_back(left))

    def _dead_letter(self, lease: AsyncLease, job: Any, error: BaseException | None) -> None:
        """Moves a message, or a body, to `<queue>.XQ`; what is refused there comes back later."""
        fields: DraftFields = {
            "ttl": self._broker._message_ttl,
            "dedup_id": lease.message.id,  # so that it comes once when the deletion is repeated
            "attributes": {"reason": reason_of(error) if error else "failed"},
        }
        try:
            _post(self._dead_letters, job, fields)
            ending = lease.ack()
        except ZaqarError as refusal:
            self._broker.logger.error("Message %s comes back: %s", lease.message.id, refusal)
            ending = lease.release(delay=LONGEST_DELAY, reason=reason_of(refusal))
        self._end(lease, ending)

    def _end(self, lease: AsyncLease, ending: Coroutine[Any, Any, None]) -> None:
        try:
            with _connection_errors():
                _Loop.run(ending)
        except ZaqarError as error:
            self._broker.logger.warning("Message %s may be done twice: %s", lease.message.id, error)
        self._forget([lease])

    def _forget(self, leases: Iterable[AsyncLease]) -> None:
        with self._changed:
            self._held -= {lease.message.id for lease in leases}
            self._changed.notify_all()


def _post(queue: Queue, job: Any, fields: DraftFields) -> None:
    """Posts a message, or a body; without the traceback if the service refuses it with that."""
    try:
        with _connection_errors():
            queue.post(body_of(job.encode()) if isinstance(job, Message) else job, **fields)
    except Refused:
        if not isinstance(job, Message) or not job.options.pop("traceback", None):
            raise
        _post(queue, job, fields)


@contextlib.contextmanager
def _connection_errors() -> Iterator[None]:
    """Makes the errors that pass those after which dramatiq tries again."""
    try:
        yield
    except Unavailable as error:
        raise ConnectionClosed(error) from error
