# SPDX-License-Identifier: Apache-2.0
"""The same without `await`: what blocks runs in an event loop of a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import operator
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar
from weakref import WeakSet

from zaqar_redis_client.claims import AsyncClaim, AsyncLease
from zaqar_redis_client.clients import AsyncClient
from zaqar_redis_client.credentials import Credential
from zaqar_redis_client.queues import AsyncQueue, AsyncTopic
from zaqar_redis_client.records import Message

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")

#: Seconds in which a process gives back and closes, at its end, what its threads have left open.
_END = 5.0


class _Loop:
    """The event loop that all blocking clients of the process share."""

    _lock = threading.Lock()
    _running: asyncio.AbstractEventLoop | None = None
    _thread = threading.current_thread()
    _pid = 0
    _ends = False
    #: what has connections in it
    opened: ClassVar[WeakSet[Any]] = WeakSet()

    @classmethod
    def run(cls, coroutine: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, cls._loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            if cls._ends and threading.current_thread().daemon:
                threading.Event().wait()  # like all such threads of a process that ends
            raise

    @classmethod
    def _loop(cls) -> asyncio.AbstractEventLoop:
        with cls._lock:
            if cls._running is None or cls._pid != os.getpid():  # a fork has no threads
                loop = asyncio.new_event_loop()
                cls._thread = threading.Thread(
                    target=loop.run_forever, name="zaqar-redis-client", daemon=True
                )
                cls._thread.start()
                cls._running, cls._pid = loop, os.getpid()
                atexit.register(cls._end, loop, cls._pid)
            return cls._running

    @classmethod
    def can_wait(cls) -> bool:
        """Whether this thread can: not that of the loop itself, and none after its end."""
        is_here = cls._pid == os.getpid() and not sys.is_finalizing()
        return is_here and threading.current_thread() is not cls._thread

    @classmethod
    def _end(cls, loop: asyncio.AbstractEventLoop, pid: int) -> None:
        async def close() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await loop.shutdown_asyncgens()
            await asyncio.gather(*(each.close() for each in cls.opened), return_exceptions=True)

        if pid == os.getpid():
            cls._ends = True
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(close(), loop).result(_END)


# What is open there belongs to the parent: closing it would cut the parent's connections.
os.register_at_fork(after_in_child=_Loop.opened.clear)


class _Blocking:
    """What has an asynchronous counterpart."""

    def __init__(self, counterpart: Any) -> None:
        self._async = counterpart


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Returns a method that waits for that of the counterpart."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _Loop.run(method(self._async, *args, **kwargs))

    return call


def iterating(
    method: Callable[Concatenate[A, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Returns a method that iterates over what that of the counterpart yields."""

    async def following(source: AsyncIterator[T]) -> T:
        return await anext(source)  # in the loop, which closes what is left of it in the end

    @functools.wraps(method)
    def iterate(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        source: Any = method(self._async, *args, **kwargs)
        try:
            while True:
                try:
                    yield _Loop.run(following(source))
                except StopAsyncIteration:
                    return
        finally:
            if _Loop.can_wait():
                _Loop.run(source.aclose())

    return iterate


def reading(name: str) -> Any:
    """Returns a property that is that of the counterpart."""
    return property(operator.attrgetter(f"_async.{name}"))


class Claim(_Blocking):
    """Messages that are held until the claim ends, or they are deleted or given back."""

    id: str = reading("id")
    messages: list[Message] = reading("messages")
    is_lost: bool = reading("is_lost")
    show = blocking(AsyncClaim.show)
    renew = blocking(AsyncClaim.renew)
    extend = blocking(AsyncClaim.extend)
    delete = blocking(AsyncClaim.delete)
    release = blocking(AsyncClaim.release)


class Lease(_Blocking):
    """A message that was claimed."""

    message: Message = reading("message")
    body: Any = reading("body")
    is_lost: bool = reading("is_lost")
    lost = blocking(AsyncLease.lost)
    ack = blocking(AsyncLease.ack)
    release = blocking(AsyncLease.release)
    extend = blocking(AsyncLease.extend)

    @property
    def claim(self) -> Claim:
        return Claim(self._async.claim)


class Topic(_Blocking):
    """A topic of the client's project: its messages stay for all who read them."""

    create = blocking(AsyncTopic.create)
    delete = blocking(AsyncTopic.delete)
    metadata = blocking(AsyncTopic.metadata)
    update = blocking(AsyncTopic.update)
    stats = blocking(AsyncTopic.stats)
    purge = blocking(AsyncTopic.purge)
    share = blocking(AsyncTopic.share)
    post = blocking(AsyncTopic.post)
    post_many = blocking(AsyncTopic.post_many)
    get = blocking(AsyncTopic.get)
    messages = iterating(AsyncTopic.messages)
    delete_messages = blocking(AsyncTopic.delete_messages)
    subscribe = blocking(AsyncTopic.subscribe)
    unsubscribe = blocking(AsyncTopic.unsubscribe)


class Queue(Topic):
    """A queue of the client's project."""

    _async: AsyncQueue

    pop = blocking(AsyncQueue.pop)
    _claim = blocking(AsyncQueue.claim)
    _consume = iterating(AsyncQueue.consume)

    def claim(
        self, limit: int = 1, *, ttl: int = 60, grace: int = 60, wait: float = 0
    ) -> Claim | None:
        """Claims messages for *ttl* seconds; None: after *wait* seconds there is still none."""
        claim = self._claim(limit, ttl=ttl, grace=grace, wait=wait)
        return Claim(claim) if claim else None

    def consume(self, *, prefetch: int = 20, ttl: int = 60) -> Iterator[Lease]:
        """Yields messages as they come, each with its lease, for ever: see `AsyncQueue.consume`."""
        for lease in self._consume(prefetch=prefetch, ttl=ttl):
            yield Lease(lease)


class Client(_Blocking):
    """As `AsyncClient`, for threads."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8888",
        project: str | None = None,
        *,
        credential: Credential | str | None = None,
        connections: int = 100,
        retry_for: float = 30.0,
    ) -> None:
        more: dict[str, Any] = {"connections": connections, "retry_for": retry_for}
        super().__init__(AsyncClient(url, project, credential=credential, **more))
        _Loop.opened.add(self._async._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def queue(self, name: str) -> Queue:
        return Queue(self._async.queue(name))

    def topic(self, name: str) -> Topic:
        return Topic(self._async.topic(name))

    close = blocking(AsyncClient.close)
    is_extended = blocking(AsyncClient.is_extended)
    queues = iterating(AsyncClient.queues)
    schedules = iterating(AsyncClient.schedules)
    set_schedule = blocking(AsyncClient.set_schedule)
    delete_schedule = blocking(AsyncClient.delete_schedule)
