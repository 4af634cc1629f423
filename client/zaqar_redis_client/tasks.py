# SPDX-License-Identifier: Apache-2.0
"""Functions that workers call, and the jobs that are posted for them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from inspect import iscoroutinefunction, signature
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from zaqar_redis_client.blocking import P, _Loop
from zaqar_redis_client.errors import ZaqarError
from zaqar_redis_client.records import DraftFields, Message
from zaqar_redis_client.spans import in_trace

if TYPE_CHECKING:
    from zaqar_redis_client.worker import Worker

R = TypeVar("R")

#: Bytes of a reason: as many as the service takes.
_REASON = 256


class Retry(Exception):
    """Raised by a task: do it again, after *delay* seconds; None: as the queue says."""

    def __init__(self, reason: str = "Retry", *, delay: int | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class WrongJob(ZaqarError):
    """A message is not what a task of this worker can be called with."""


class Failed(Exception):
    """A function has failed, of which only text is left.  *trace*: its traceback, as a note."""

    def __init__(self, reason: str, trace: str) -> None:
        super().__init__(reason)
        self.add_note(trace)


@dataclass(frozen=True)
class Task(Generic[P, R]):
    """A function that workers call for the messages of a queue: see `Worker.task`.

    Called directly it does what the function does.
    """

    worker: Worker = field(repr=False)
    function: Callable[P, R]
    name: str
    queue: str
    #: seconds; None: without a limit
    timeout: float | None = None
    #: whether it runs in a process of its own
    processes: bool = False
    #: of the messages that are posted
    fields: DraftFields = field(default_factory=DraftFields)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def options(self, **fields: Unpack[DraftFields]) -> Task[P, R]:
        """Returns it with fields of `Draft` for what it posts, as `delay`.  Raises TypeError."""
        known = DraftFields.__annotations__
        for unknown in fields.keys() - known.keys():
            raise TypeError(f"task {self.name!r}: no option {unknown!r}, but {', '.join(known)}")
        return replace(self, fields=self.fields | fields)

    def body(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """Returns the body of a message that calls the function with these arguments.

        Raises TypeError: it does not take them.
        """
        with contextlib.suppress(ValueError):  # some of C do not say what they take
            takes = signature(self.function, follow_wrapped=False)
            try:
                takes.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"task {self.name!r}: {error}") from None
        return {"task": self.name, "args": [*args], "kwargs": kwargs}

    async def post(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Posts a job, and returns its id.  Arguments are what JSON can have.

        Raises Refused and Unavailable.
        """
        queue = self.worker.client().queue(self.queue)
        return await queue.post(self.body(*args, **kwargs), **in_trace(self.fields))

    def post_blocking(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Does the same without `await`, from any thread."""
        return _Loop.run(self.post(*args, **kwargs))

    async def ask(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Posts a job, and returns the result of the function, when it was done, as JSON has it.

        It waits as long as the job lives, for the `ttl` of `options`, 60 seconds by default.
        Raises JobFailed, TimeoutError, Refused and Unavailable.
        """
        return await self.worker.replies().ask(
            self.queue, self.body(*args, **kwargs), in_trace(self.fields)
        )

    def ask_blocking(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Does the same without `await`, from any thread."""
        return _Loop.run(self.ask(*args, **kwargs))

    @property
    def is_async(self) -> bool:
        return iscoroutinefunction(self.function)

    @property
    def is_stoppable(self) -> bool:
        """Whether it can be stopped: a thread cannot."""
        return self.is_async or self.processes


def function_at(module: str, name: str) -> Callable[..., Any]:
    """Returns the function of a task that is there."""
    found: Any = attrgetter(name)(import_module(module))
    return found.function if isinstance(found, Task) else found


@dataclass(frozen=True, slots=True)
class Job:
    """What a message asks for."""

    task: Task[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]
    #: whether somebody waits for its result
    is_asked: bool

    @classmethod
    def of(cls, message: Message, tasks: Mapping[str, Task[..., Any]]) -> Job:
        """Raises WrongJob."""
        match message.body:
            case {"task": str(name), **more}:
                args, kwargs = more.get("args", []), more.get("kwargs", {})
            case _:
                raise WrongJob('the body must be {"task": name, "args": […], "kwargs": {…}}')
        task = tasks.get(name)
        if task is None:
            known = ", ".join(map(json.dumps, tasks))
            raise WrongJob(f"no task {json.dumps(name)}: this worker has {known}")
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise WrongJob("args must be an array, kwargs an object")
        return cls(task, args, kwargs, "reply_to" in message.attributes)


def reason_of(error: BaseException) -> str:
    """Returns what the service takes as a reason."""
    text = type(error).__name__
    with contextlib.suppress(Exception):  # of its `__str__`
        text = str(error) if isinstance(error, Retry | WrongJob | Failed) else f"{text}: {error}"
    text = " ".join(text.split())
    text = "".join(each if each.isprintable() else "?" for each in text)
    if len(text.encode()) <= _REASON:
        return text
    return text.encode()[: _REASON - 3].decode(errors="ignore") + "…"
