# SPDX-License-Identifier: Apache-2.0
"""How a worker calls a function: in its event loop, in a thread, or in a process."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import json
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from zaqar_redis_client.tasks import Failed, Job, Retry, function_at, reason_of

T = TypeVar("T")

#: What calls functions: its frames say nothing about them.
_CALLERS = {"zaqar_redis_client", "asyncio"}


def from_function_on(error: BaseException) -> BaseException:
    """Returns it with a traceback that begins with the function."""
    trace = error.__traceback__
    while trace and str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] in _CALLERS:
        trace = trace.tb_next
    return error.with_traceback(trace)


def _failure(error: BaseException) -> tuple[str, str]:
    """Returns what `Failed` takes."""
    return reason_of(error), "".join(traceback.format_exception(from_function_on(error)))


class Executor:
    """Calls functions; one that is cancelled runs no more, unless it is in a thread."""

    def __init__(self) -> None:
        #: processes that have no job: never more than there are slots
        self._idle: list[_Process] = []

    async def run(self, job: Job) -> Any:
        """Returns what the function returns.  Raises what it raises, or Failed."""
        try:
            if job.task.processes:
                return await self._in_process(job)
            if job.task.is_async:
                return await job.task.function(*job.args, **job.kwargs)
            return await in_thread(lambda: job.task.function(*job.args, **job.kwargs))
        except (SystemExit, KeyboardInterrupt) as error:  # would end the worker
            raise Failed(*_failure(error)) from None

    async def _in_process(self, job: Job) -> Any:
        process = self._process()
        try:
            outcome, value = await in_thread(lambda: process.call(job))
        except BaseException:
            process.kill()  # a thread that waits in `call` reads the connection's end
            raise
        self._idle.append(process)
        if outcome == "done":
            return value
        if outcome == "retry":
            raise Retry(value[0], delay=value[1])
        raise Failed(*value)

    def _process(self) -> _Process:
        while self._idle:
            process = self._idle.pop()
            if process.is_alive():  # one may have been killed, for want of memory say
                return process
        return _Process()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().kill()


async def in_thread(function: Callable[[], T]) -> T:
    """Calls a function in a thread of its own, which does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(settling: Callable[[Any], None], value: Any) -> None:
        def settled() -> None:
            if not future.done():
                settling(value)

        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settled)

    def call() -> None:
        try:
            result = function()
        except StopIteration as error:  # no future can have it
            settle(future.set_exception, RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:
            settle(future.set_exception, error)
        else:
            settle(future.set_result, result)

    threading.Thread(target=contextvars.copy_context().run, args=(call,), daemon=True).start()
    return await future


class _Process(SpawnProcess):
    """A process that does one job after another, and ends with the worker."""

    def __init__(self) -> None:
        here, there = Pipe()
        super().__init__(target=_serve, args=(there,))
        self.start()  # before it has its end of the connection, which the process would get, too
        self._connection = here
        there.close()

    def call(self, job: Job) -> tuple[str, Any]:
        """Raises RuntimeError: the process has ended."""
        try:
            found_at = job.task.function.__module__, job.task.function.__qualname__
            self._connection.send((*found_at, job.args, job.kwargs, job.is_asked))
            outcome: tuple[str, Any] = self._connection.recv()
        except (EOFError, OSError):
            self.join(1)
            ended = f"the process of the task has ended with code {self.exitcode}"
            raise RuntimeError(ended) from None
        return outcome


def _serve(jobs: Connection) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to all of a group, and the worker decides
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            jobs.send(_outcome(*jobs.recv()))


def _end_with_the_worker() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _outcome(
    module: str, name: str, args: list[Any], kwargs: dict[str, Any], is_asked: bool
) -> tuple[str, Any]:
    try:
        result = function_at(module, name)(*args, **kwargs)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        return "done", json.loads(json.dumps(result)) if is_asked else None
    except Retry as retry:
        return "retry", (str(retry), retry.delay)
    except BaseException as error:
        return "failed", _failure(error)
