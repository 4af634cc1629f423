# SPDX-License-Identifier: Apache-2.0
"""Lua scripts as verbs, and how verbs are run: awaited, eagerly, and blocking.

A script's signature (`script_source`) names its keys and arguments, so that Python passes them
by name, and a wrong name fails before anything is sent.

A verb is a generator that yields `Call` and `RedisCommand` values and is sent their answers: the
same verb is awaited by the server and run by synchronous callers.  Independent ones
may be yielded together, as a list; the server sends them in one write.  It may also yield another
verb, perhaps of another store, and a `Pause`.  What fails, e.g. a call to a store that is
unavailable, raises its error where it was yielded.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

import hiredis

from zaqar_redis.keyspace import commands, slot_indexes
from zaqar_redis.keyspace.keys import SentKeys
from zaqar_redis.keyspace.script_source import ScriptSource

P = ParamSpec("P")
T = TypeVar("T")
Argument = bytes | str | int


class RedisCommand:
    """A plain command, ready to send."""

    __slots__ = ("_parts",)

    def __init__(self, *parts: Argument) -> None:
        self._parts = parts

    @classmethod
    def page(cls, zset: bytes, after: str, limit: int) -> RedisCommand:
        """Returns the command that reads members, all of one score, behind *after* or all."""
        return cls("ZRANGEBYLEX", zset, f"({after}" if after else "-", "+", "LIMIT", 0, limit)

    def command(self) -> tuple[Argument, ...]:
        return self._parts

    def packed(self) -> bytes:
        """Returns the command as it is sent (RESP)."""
        return _pack(self._parts)

    def with_source(self) -> RedisCommand:
        """Returns the command for a server that may lack its script."""
        return self

    def of_cluster(self) -> RedisCommand:
        """Returns the command for a node of a Redis Cluster."""
        return self

    def key(self) -> Argument | None:
        """Returns the first key of the command; None: it has none."""
        name = self._parts[0]
        if name in commands.OF_SERVER:
            return None
        if name in ("EVAL", "EVALSHA"):
            return self._parts[3] if self._parts[2] else None
        return self._parts[1]

    def slot(self) -> int | None:
        """Returns the Redis Cluster slot of the command; None: every node can do it."""
        key = self.key()
        return None if key is None else slot_indexes.slot_of_key(key)

    @property
    def writes(self) -> bool:
        return self._parts[0] not in commands.READING

    @property
    def needs_memory(self) -> bool:
        """Whether a store that is nearly full does not get it."""
        return False


class Call(RedisCommand):
    """One script with its keys and arguments, ready to send."""

    __slots__ = ("_args", "_keys", "script")

    def __init__(self, script: Script, keys: object, args: tuple[Argument, ...]) -> None:
        """*keys* has the script's keys as attributes; or is a tuple of keys, of any number."""
        self.script = script
        self._keys = keys
        self._args = args

    def command(self) -> tuple[Argument, ...]:
        return ("EVALSHA", self.script.sha, *self._tail())

    def with_source(self) -> RedisCommand:
        return RedisCommand("EVAL", self.script.source, *self._tail())

    def of_cluster(self) -> RedisCommand:
        script = self.script.of_cluster
        return self if script is self.script else Call(script, self._keys, self._args)

    def key(self) -> Argument | None:
        found = self.script.keys_of(self._keys)
        return found[0] if found else None

    def slot(self) -> int | None:
        keys = self._keys
        if not isinstance(keys, SentKeys):
            return super().slot()
        if keys.slot is None:
            keys.slot = super().slot()
        return keys.slot

    @property
    def writes(self) -> bool:
        return self.script.writes

    @property
    def needs_memory(self) -> bool:
        return self.script.needs_memory

    def packed(self) -> bytes:
        if not isinstance(self._keys, SentKeys):
            return _pack(self.command())
        script, heads = self.script, self._keys.packed_heads
        head = heads.get(script.sha)
        if head is None:
            parts = _pack(("EVALSHA", script.sha, *script.key_parts(self._keys)))
            head = heads[script.sha] = parts[parts.index(b"\r") :]
        args = _pack(self._args)
        count = 3 + len(script.keys) + len(self._args)
        return b"*%d%b%b" % (count, head, args[args.index(b"\n") + 1 :])

    def _tail(self) -> tuple[Argument, ...]:
        return (*self.script.key_parts(self._keys), *self._args)


def _pack(parts: tuple[Argument, ...]) -> bytes:
    packed: bytes = hiredis.pack_command(parts)  # type: ignore[arg-type]  # ints too
    return packed


class Script:
    """The script of one verb: ``lua/<resource>_<verb>.lua``."""

    def __init__(self, name: str, publish: str = "PUBLISH") -> None:
        """*publish*: of `ScriptSource`.

        Raises ValueError when the script's signature or an include is wrong.
        """
        self.name = name
        read = ScriptSource.load(name, publish)
        self.source, self.writes = read.text, read.writes
        self.needs_memory = "deny-oom" in read.flags
        self.keys, self.args, self.takes_rest = tuple(read.keys), tuple(read.args), read.takes_rest
        self.sha = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        is_sharded = not read.publishes or publish == "SPUBLISH"
        self.of_cluster = self if is_sharded else Script(name, "SPUBLISH")
        self._pick_keys = _picker(attrgetter, self.keys)
        self._pick_args = _picker(itemgetter, self.args)

    def __call__(self, keys: object, *rest: Argument, **named: Argument) -> Call:
        """Binds keys (attributes of *keys* of the same names) and arguments.

        Raises TypeError when a named argument is missing or unknown.
        """
        try:
            values = self._pick_args(named)
        except KeyError as missing:
            raise TypeError(f"{self.name} lacks the argument {missing}") from None
        if len(values) != len(named) or (rest and not self.takes_rest):
            raise TypeError(f"{self.name} takes {self.args}, not {tuple(named)}")
        return Call(self, keys, (*values, *rest))

    def key_parts(self, keys: object) -> tuple[Argument, ...]:
        """Returns the number of keys, and the keys."""
        found = self.keys_of(keys)
        return (len(found), *found)

    def keys_of(self, keys: object) -> tuple[Any, ...]:
        return keys if isinstance(keys, tuple) else self._pick_keys(keys)


def _picker(getter: Any, names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns a function that fetches several values at once, in C, for speed."""
    if not names:
        return lambda _: ()
    pick = getter(*names)
    return pick if len(names) > 1 else lambda source: (pick(source),)


class AsyncScriptClient(Protocol):
    """A client that sends calls from a running event loop."""

    def call(self, call: RedisCommand) -> Awaitable[Any]:
        """Returns the answer of a script or a plain command.  Raises `errors.StoreUnavailable`."""


class SyncScriptClient(Protocol):
    """A client that sends calls and blocks."""

    def call(self, call: RedisCommand) -> Any:
        """Returns the answer of a script or a plain command.  Raises `errors.StoreUnavailable`."""

    def calls(self, calls: Sequence[RedisCommand]) -> list[Any]:
        """Returns the answers of several, which are sent together.  Raises as `call`."""


class Pause:
    """A pause of *seconds*, before the verb goes on."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


Steps = Generator[
    "RedisCommand | Pause | Awaitable[Any] | Sequence[RedisCommand | Awaitable[Any]]", Any, T
]


class Verb(Generic[T]):
    """A verb that has not begun: await it, or `run` it."""

    __slots__ = ("client", "steps")

    def __init__(self, client: Any, steps: Steps[T]) -> None:
        self.client = client
        self.steps = steps

    def __await__(self) -> Generator[Any, Any, T]:
        return self._drive(_answer)

    def run(self) -> T:
        """Runs the verb now, over a `SyncScriptClient`, and returns its result."""
        try:
            next(self._drive(_answer_blocking))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # StopIteration.value is Any
        raise RuntimeError("a verb that is run blocking must not wait for an event loop")

    def _drive(
        self, answer: Callable[[Any, Any], Generator[Any, Any, Any]]
    ) -> Generator[Any, Any, T]:
        steps, client = self.steps, self.client
        try:
            request = next(steps)
            while True:
                try:
                    found = yield from answer(client, request)
                # A verb may have something to undo, also when it is cancelled.
                except (Exception, asyncio.CancelledError, KeyboardInterrupt) as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(found)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # StopIteration.value is Any


def _answer(client: AsyncScriptClient, request: Any) -> Generator[Any, Any, Any]:
    """Returns what to wait for in an event loop to get the answer of a request."""
    return _awaitable(client, request).__await__()


def _awaitable(client: AsyncScriptClient, request: Any) -> Awaitable[Any]:
    if isinstance(request, RedisCommand):
        return client.call(request)
    if isinstance(request, list):
        each = [client.call(one) if isinstance(one, RedisCommand) else one for one in request]
        return asyncio.gather(*each)
    if isinstance(request, Pause):
        return asyncio.sleep(request.seconds)
    return cast(Awaitable[Any], request)  # a verb, or e.g. a coroutine of another driver


def _answer_blocking(client: SyncScriptClient, request: Any) -> Generator[Any, Any, Any]:
    """Returns the answer of a request: a generator that never yields."""
    if isinstance(request, RedisCommand):
        return client.call(request)
    if isinstance(request, list):
        if all(isinstance(one, RedisCommand) for one in request):
            return client.calls(request)
        return [client.call(one) if isinstance(one, RedisCommand) else one.run() for one in request]
    if isinstance(request, Pause):
        time.sleep(request.seconds)
        return None
    return request.run()
    yield


class EagerRun(Generic[T]):
    """A run of a verb that begins at once and goes on when an answer comes, without a task.

    A task costs as much as a tenth of a small request.  What is awaitable but no call to a store,
    e.g. a long poll, gets a task of its own.
    """

    __slots__ = ("_on_end", "_verbs", "_waits_for")

    def __init__(
        self, verb: Verb[T], on_end: Callable[[T | None, BaseException | None], None]
    ) -> None:
        """*on_end* is called once, with the result or with what was raised; perhaps here."""
        self._on_end = on_end
        #: the verb, and those that it runs: each waits for the next one
        self._verbs: list[Verb[Any]] = [verb]
        self._waits_for: asyncio.Future[Any] | None = None
        self._go_on(None, None)

    @property
    def has_ended(self) -> bool:
        return self._waits_for is None

    def cancel(self) -> None:
        """Raises CancelledError where the verb waits."""
        if self._waits_for is not None:
            self._waits_for.cancel()

    def _on_answer(self, answer: asyncio.Future[Any]) -> None:
        self._waits_for = None
        try:
            found = answer.result()
        except (Exception, asyncio.CancelledError) as error:
            del answer  # else the error's traceback holds it, and it the error
            self._go_on(None, error)
        else:
            self._go_on(found, None)

    def _go_on(self, found: Any, error: BaseException | None) -> None:
        verbs = self._verbs
        while verbs:
            verb = verbs[-1]
            try:
                request = verb.steps.send(found) if error is None else verb.steps.throw(error)
            except StopIteration as done:
                verbs.pop()
                found, error = done.value, None
                continue
            except (Exception, asyncio.CancelledError) as raised:
                verbs.pop()
                found, error = None, raised
                continue
            found = error = None
            if type(request) is Verb:
                verbs.append(request)
                continue
            try:
                answer = _awaitable(verb.client, request)
            except Exception as raised:  # e.g. the store is unavailable
                error = raised
                continue
            if not isinstance(answer, asyncio.Future):
                answer = asyncio.ensure_future(answer)
            self._waits_for = answer
            answer.add_done_callback(self._on_answer)
            return
        try:
            self._on_end(found, error)
        finally:
            found = error = None  # else the error's traceback holds this frame, and it the error


class HasClient(Protocol):
    client: Any


class ComposedVerbs:
    """Has verbs that consist of other verbs, and so needs no client of its own."""

    client = None


S = TypeVar("S", bound=HasClient)


def verb(steps: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[S, P], Verb[T]]:
    """Turns a method that yields calls into one that returns a `Verb`."""

    @functools.wraps(steps)
    def bound(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Verb[T]:
        return Verb(self.client, steps(self, *args, **kwargs))

    return bound
