# SPDX-License-Identifier: Apache-2.0
"""A worker: functions, the queues whose messages they are called for, and schedules."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from zaqar_redis_client.blocking import P, _Loop
from zaqar_redis_client.clients import AsyncClient
from zaqar_redis_client.consuming import Consumer
from zaqar_redis_client.credentials import Credential
from zaqar_redis_client.records import Draft
from zaqar_redis_client.replies import Replies
from zaqar_redis_client.tasks import R, Task

logger = logging.getLogger(__name__)


class Worker:
    """Calls functions for the messages of queues, in one process.

    *concurrency*: functions that run at a time.  *prefetch*: messages that are claimed beyond
    these, so that the next ones need not be waited for; as many by default, and one at least for
    each queue.  *ttl*: seconds of a lease, which is renewed while its function runs; when the
    worker is killed, others get its messages so much later.  *grace*: seconds that functions may
    go on when it is to stop.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8888",
        project: str | None = None,
        *,
        credential: Credential | str | None = None,
        concurrency: int = 16,
        prefetch: int | None = None,
        ttl: int = 60,
        grace: float = 30.0,
    ) -> None:
        known = {"concurrency": (concurrency, 1), "prefetch": (prefetch, 0), "ttl": (ttl, 1)}
        for argument, (value, least) in known.items():
            if value is not None and not (type(value) is int and value >= least):
                raise ValueError(
                    f"{argument} must be a whole number, {least} or more, not {value!r}"
                )
        if type(grace) not in (int, float) or not grace >= 0:
            raise ValueError(f"grace must be a number, 0 or more, not {grace!r}")
        self.url, self._project, self._credential = url, project, credential
        self.concurrency = concurrency
        self._prefetch = prefetch
        self.ttl, self.grace = ttl, grace
        #: by name
        self.tasks: dict[str, Task[..., Any]] = {}
        #: name -> metadata
        self.queues: dict[str, dict[str, Any]] = {}
        #: name -> fields
        self.schedules: dict[str, dict[str, Any]] = {}
        # By process: a fork must neither close nor collect what its parent has.
        self._connected: dict[int, WeakKeyDictionary[asyncio.AbstractEventLoop, Replies]] = {}

    @property
    def prefetch(self) -> int:
        wanted = self.concurrency if self._prefetch is None else self._prefetch
        return max(wanted, len(self.consumed))

    @property
    def consumed(self) -> list[str]:
        """The queues that tasks are for."""
        return list(dict.fromkeys(task.queue for task in self.tasks.values()))

    def queue(self, name: str, /, **metadata: Any) -> None:
        """Lets the worker create a queue when it starts, or set these metadata of it."""
        self.queues.setdefault(name, {}).update(metadata)

    def task(
        self,
        queue: str,
        /,
        *,
        name: str = "",
        timeout: float | None = None,
        processes: bool = False,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Makes a task of a function, for messages of *queue* that have its name, or *name*.

        A function with `async` runs in the event loop, another one in a thread, either with
        *processes* in a process.  After *timeout* seconds it is cancelled, in a process killed;
        a thread cannot be stopped, so it cannot have a timeout.  Raises ValueError.
        """

        def decorate(function: Callable[P, R]) -> Task[P, R]:
            task = Task(self, function, name or function.__name__, queue, timeout, processes)
            if task.name in self.tasks:
                raise ValueError(f"there is a task {task.name!r}: give one of them another name")
            if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
                raise ValueError(f"timeout of {task.name!r} must be above 0, not {timeout!r}")
            if timeout is not None and not task.is_async and not processes:
                raise ValueError(
                    f"timeout of {task.name!r}: a thread cannot be stopped; make the function "
                    "async, or add processes=True"
                )
            if processes and "<" in function.__qualname__:
                raise ValueError(
                    f"processes of {task.name!r}: another process finds only functions of a module"
                )
            self.tasks[task.name] = task
            return task

        return decorate

    def schedule(
        self,
        name: str,
        task: Task[..., Any],
        /,
        *,
        cron: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Lets the worker set a recurring post of a job when it starts.

        *fields*: those of `PUT /v2/schedules/…`, as `timezone`.  Raises TypeError.
        """
        if not isinstance(task, Task):
            raise TypeError(f"schedule {name!r}: task must be what `task` has made, not {task!r}")
        body = task.body(*args, **(kwargs or {}))
        message = Draft(body=body, **task.fields).document()
        self.schedules[name] = {"queue": task.queue, "cron": cron, "message": message} | fields

    def client(self) -> AsyncClient:
        """Returns the client of the running event loop."""
        return self.replies().client

    def replies(self) -> Replies:
        """Returns what receives results in the running event loop."""
        loop = asyncio.get_running_loop()
        connected = self._connected.setdefault(os.getpid(), WeakKeyDictionary())
        found = connected.get(loop)
        if found is None:
            client = AsyncClient(self.url, self._project, credential=self._credential)
            found = connected[loop] = Replies(client)
            _Loop.opened.add(self)
        return found

    async def close(self) -> None:
        """Closes its connections: needed where jobs were only posted."""
        for loop, replies in [*self._connected.pop(os.getpid(), WeakKeyDictionary()).items()]:
            if loop is asyncio.get_running_loop():
                await replies.close()
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(replies.close(), loop)
                await asyncio.wrap_future(closing)

    def close_blocking(self) -> None:
        """Does the same without `await`."""
        _Loop.run(self.close())

    def consumer(self) -> Consumer:
        """Returns what works for it, once."""
        return Consumer(self)

    async def work(self, consumer: Consumer | None = None) -> None:
        """Works until SIGTERM or SIGINT has stopped it; a second one does not wait for functions.

        Raises Refused: the service does not allow what the worker needs.
        """
        consumer = consumer or self.consumer()
        loop, signals = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            loop.add_signal_handler(number, consumer.stop)
        try:
            await consumer.run()
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
            await self.close()

    def run(self) -> None:
        """Does so in an event loop of its own."""
        asyncio.run(self.work())
