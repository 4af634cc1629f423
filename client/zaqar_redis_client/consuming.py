# SPDX-License-Identifier: Apache-2.0
"""What a worker does while it runs: claims messages, calls functions, and says what became of them.

A message has a place from before it is claimed until it is done or given back: there are as many
places as slots and prefetched messages, and each queue's next claim gets them in turn.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, defaultdict, deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from zaqar_redis_client.claims import PAGE, AsyncLease, give_back
from zaqar_redis_client.errors import LeaseLost, Refused, Unavailable, Unsupported, ZaqarError
from zaqar_redis_client.execution import Executor, T, from_function_on
from zaqar_redis_client.records import Message
from zaqar_redis_client.replies import reply, reply_if_dead
from zaqar_redis_client.spans import span_of
from zaqar_redis_client.tasks import Job, Retry, WrongJob, reason_of

if TYPE_CHECKING:
    from zaqar_redis_client.worker import Worker

logger = logging.getLogger(__name__)

#: Seconds of a long poll; the service may allow less, and answers earlier then.
_WAIT = 20.0
#: Seconds until the next attempt when the service is away.
_PAUSE = 1.0
_LOST = "its lease could not be renewed, others may get it"
#: Seconds that functions may take to end after they were cancelled.
_CLEAN_UP = 5.0


class Places:
    """Who asks first gets places first, and leaves their share to others: queues take turns."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._asking = 0
        self._turn = asyncio.Lock()
        self._given_back = asyncio.Event()

    async def take(self, most: int) -> int:
        """Waits for one, and returns how many there were, *most* at most."""
        self._asking += 1
        try:
            async with self._turn:
                while not self._free:
                    self._given_back.clear()
                    await self._given_back.wait()
                taken = min(most, math.ceil(self._free / self._asking))
                self._free -= taken
                return taken
        finally:
            self._asking -= 1

    def give_back(self, count: int = 1) -> None:
        self._free += count
        self._given_back.set()


@dataclass(eq=False, slots=True)
class Running:
    """A job that runs."""

    task: str
    message_id: str
    #: of `monotonic`
    since: float = field(default_factory=monotonic)


class Consumer:
    """A worker that runs.  It works once."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._executor = Executor()
        self._places = Places(worker.concurrency + worker.prefetch)
        #: claimed, and not begun; as many as there are places at most
        self._waiting: deque[AsyncLease] = deque()
        self._jobs: set[asyncio.Task[None]] = set()
        self._stops = asyncio.Event()
        self._stops_at_once = asyncio.Event()
        #: what need not come to its end when the worker stops
        self._interruptible: set[asyncio.Task[Any]] = set()
        #: (task, outcome) -> number; outcomes are `done`, `failed`, `retried` and `lost`
        self.counts: Counter[tuple[str, str]] = Counter()
        self.running: set[Running] = set()
        #: task -> seconds of its jobs that do not run any more
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @property
    def held(self) -> int:
        """Messages that it has claimed, and not deleted or given back."""
        return len(self._waiting) + len(self._jobs)

    def stop(self) -> None:
        """Lets it claim nothing more, and what runs come to its end; called again, at once."""
        if self._stops.is_set():
            self._stops_at_once.set()
            return
        self._stops.set()
        for task in self._interruptible:
            task.cancel()

    async def run(self) -> None:
        """Works until it is stopped.  Raises ValueError, Refused and Unsupported."""
        if not self._worker.tasks:
            raise ValueError("the worker has no tasks: decorate functions with its `task`")
        names, of = ", ".join(self._worker.consumed), self._worker.client().client_id
        logger.info("works for %s at %s, Client-ID %s", names, self._worker.url, of)
        try:
            await self._until_stopped(self._declare())
            pumps = [asyncio.create_task(self._pump(each)) for each in self._worker.consumed]
            try:
                await asyncio.gather(*pumps)
            finally:
                if not self._stops.is_set():
                    self.stop()
                await asyncio.wait(pumps)
                await self._end()
        finally:
            self._executor.close()

    async def _until_stopped(self, coroutine: Coroutine[Any, Any, T]) -> T | None:
        """Returns what the coroutine returns; None: the worker is to stop."""
        if self._stops.is_set():
            coroutine.close()
            return None
        task = asyncio.create_task(coroutine)
        self._interruptible.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not self._stops.is_set():
                raise
            return None
        finally:
            self._interruptible.discard(task)

    # Before it works.

    async def _declare(self) -> None:
        while True:
            try:
                return await self._declare_once()
            except Unavailable as error:
                logger.warning("waiting for the service: %s", error)
                await asyncio.sleep(_PAUSE)

    async def _declare_once(self) -> None:
        client = self._worker.client()
        if not await client.is_extended():
            raise Unsupported(
                f"workers need zaqar_redis: at {self._worker.url} is stock Zaqar, or something else"
            )
        for name, metadata in self._worker.queues.items():
            queue = client.queue(name)
            given = {each: value for each, value in metadata.items() if value is not None}
            is_new = await queue.create(**given)
            if not is_new and not _includes(await queue.metadata(), metadata):
                await queue.update(**metadata)
        if self._worker.schedules:
            known = {each["name"]: each async for each in client.schedules()}
            for name, fields in self._worker.schedules.items():
                if not _includes(known.get(name), fields):  # else it would count from now
                    await client.set_schedule(name, **fields)
        needed = {"_max_claim_count", "_dead_letter_queue"}
        for name in self._worker.consumed:
            if not needed <= {*await client.queue(name).metadata()}:
                logger.warning(
                    "queue %s: without _max_claim_count and _dead_letter_queue a job that always "
                    "fails is repeated until its ttl ends",
                    name,
                )

    # Messages come.

    async def _pump(self, name: str) -> None:
        """Claims messages of a queue whenever there are places for them."""
        queue, is_idle = self._worker.client().queue(name), False
        while not self._stops.is_set():
            places = await self._until_stopped(self._places.take(1 if is_idle else PAGE))
            if not places:
                return
            leases: list[AsyncLease] = []
            try:
                claiming = queue._leases(places, ttl=self._worker.ttl, wait=_WAIT * is_idle)
                leases = await self._until_stopped(claiming) or []
            except Unavailable as error:
                logger.warning("queue %s: %s", name, error)
                await self._until_stopped(asyncio.sleep(_PAUSE))
            self._places.give_back(places - len(leases))
            is_idle = not leases
            self._waiting += leases
            self._begin()

    # Messages are worked on.

    def _begin(self) -> None:
        while (
            self._waiting
            and len(self._jobs) < self._worker.concurrency
            and not self._stops.is_set()
        ):
            job = asyncio.create_task(self._work(self._waiting.popleft()))
            self._jobs.add(job)
            job.add_done_callback(self._ended)

    def _ended(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        self._places.give_back()
        self._begin()

    async def _work(self, lease: AsyncLease) -> None:
        try:
            job = Job.of(lease.message, self._worker.tasks)
        except WrongJob as error:
            logger.error("message %s: %s", lease.message.id, error)
            self.counts["", "failed"] += 1
            return await self._release(lease, reason_of(error))
        if lease.is_lost:  # while it waited
            logger.warning("message %s was not begun: %s", lease.message.id, _LOST)
            self.counts[job.task.name, "lost"] += 1
            return None
        running = Running(job.task.name, lease.message.id)
        self.running.add(running)
        function = asyncio.create_task(self._call(job, lease.message))
        ends: list[asyncio.Future[Any]] = [function, lease.claim._lost]
        try:
            await asyncio.wait(ends, timeout=job.task.timeout, return_when=asyncio.FIRST_COMPLETED)
            outcome = await self._settle(lease, job, function)
            self.counts[job.task.name, outcome] += 1
        except asyncio.CancelledError:  # the worker does not wait any more
            is_done = function.done() and not (function.cancelled() or function.exception())
            if job.task.is_stoppable and not is_done:  # else its deletion is on its way
                logger.warning("%s %s: stopped, and given back", job.task.name, lease.message.id)
                await self._interrupt(job, function)
                await self._release(lease, "the worker was stopped", delay=0)
            lease.claim.forget([lease.message.id])  # of a thread it comes back in time
            raise
        except Exception as error:  # of an error that has no text, say; else it is held for ever
            logger.exception("%s %s: its outcome cannot be told", job.task.name, lease.message.id)
            self.counts[job.task.name, "failed"] += 1
            await self._release(lease, f"its outcome cannot be told: {type(error).__name__}")
        finally:
            self.running.discard(running)
            self.seconds[running.task] += monotonic() - running.since

    async def _call(self, job: Job, message: Message) -> Any:
        with span_of(job.task.name, job.task.queue, message):
            return await self._executor.run(job)

    async def _settle(self, lease: AsyncLease, job: Job, function: asyncio.Task[Any]) -> str:
        """Returns the outcome."""
        what = f"{job.task.name} {lease.message.id}"
        if function.done():
            error = await self._finish(lease, function)
        elif lease.is_lost:
            logger.error("%s: %s", what, _LOST)
            await self._interrupt(job, function)
            return "lost"
        else:
            await self._interrupt(job, function)
            error = TimeoutError(f"it took longer than {job.task.timeout:g} seconds")
        if error is None:
            return "done"
        if isinstance(error, LeaseLost | Unavailable) and function.exception() is None:
            logger.error("%s: it is done, but may be done again: %s", what, error)
            lease.claim.forget([lease.message.id])  # else it is held as long as the worker works
            return "lost"
        if isinstance(error, Retry):
            logger.info("%s: %s", what, error)
            await self._release(lease, reason_of(error), delay=error.delay)
            return "retried"
        reason = reason_of(error)
        logger.error("%s: %s", what, reason, exc_info=from_function_on(error))
        await self._release(lease, reason)
        return "failed"

    async def _finish(self, lease: AsyncLease, function: asyncio.Task[Any]) -> BaseException | None:
        """Sends the result where it is waited for, and deletes the message; returns what failed."""
        if function.cancelled():
            return RuntimeError("the task was cancelled")
        if (error := function.exception()) is not None:
            return error
        try:
            await reply(self._worker.client(), lease.message, function.result())
            await lease.ack()
        except (ZaqarError, TypeError, ValueError) as failure:  # the latter: it is no JSON
            return failure
        return None

    async def _interrupt(self, job: Job, function: asyncio.Task[Any]) -> None:
        """Cancels it, and waits for its end; a thread comes to its end by itself."""
        if job.task.is_stoppable:
            function.cancel()
        await asyncio.wait({function})
        if not function.cancelled():
            function.exception()  # is of no interest any more, and is not logged

    async def _release(self, lease: AsyncLease, reason: str, delay: int | None = None) -> None:
        try:
            await lease.release(delay=delay, reason=reason)
        except ZaqarError as error:
            if delay and isinstance(error, Refused) and error.status == 400:  # Retry asked for it
                logger.error("message %s: delay=%s: %s", lease.message.id, delay, error.description)
                reason = reason_of(WrongJob(f"{reason} (delay={delay}: {error.description})"))
                await self._release(lease, reason)
                return
            logger.warning("message %s comes back when its lease ends: %s", lease.message.id, error)
        await reply_if_dead(self._worker.client(), lease, reason)

    # The end.

    async def _end(self) -> None:
        """Gives back what has not begun, and waits for what has."""
        back = asyncio.create_task(give_back([*self._waiting]))
        self._waiting.clear()
        at_once = asyncio.create_task(self._stops_at_once.wait())
        logger.info("stops; jobs: %d, grace: %g seconds", len(self._jobs), self._worker.grace)
        jobs = asyncio.gather(back, *self._jobs, return_exceptions=True)
        first: list[asyncio.Future[Any]] = [jobs, at_once]
        await asyncio.wait(first, timeout=self._worker.grace, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()
        for job in self._jobs:
            job.cancel()
        await asyncio.wait({*self._jobs, back}, timeout=_CLEAN_UP)


def _includes(found: Any, wanted: Any) -> bool:
    """Returns whether a document has all fields of another one."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(_includes(found.get(name), value) for name, value in wanted.items())
    return bool(found == wanted)
