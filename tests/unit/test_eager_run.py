# SPDX-License-Identifier: Apache-2.0
"""A verb that is run eagerly ends like one that is awaited, without a task."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.support import servers
from tests.support.backends import Backend
from zaqar_redis import errors
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.client import CommandRefused
from zaqar_redis.keyspace.script import EagerRun, Pause, RedisCommand, Steps, Verb, verb
from zaqar_redis.keyspace.settings import BatchSettings


class EchoVerbs:
    """Verbs of all kinds, over a real store."""

    def __init__(self, client: keyspace.AsyncClient) -> None:
        self.client = client
        self.events: list[str] = []

    @verb
    def nothing(self) -> Steps[str]:
        return "done"
        yield

    @verb
    def echo(self, *texts: str) -> Steps[list[bytes]]:
        found = []
        for text in texts:
            answer: bytes = yield RedisCommand("ECHO", text)
            found.append(answer)
        return found

    @verb
    def together(self) -> Steps[list[Any]]:
        found: list[Any] = yield [RedisCommand("ECHO", "a"), self.echo("b", "c"), _later("d")]
        return found

    @verb
    def refused(self) -> Steps[None]:
        self.events.append("sent")
        yield RedisCommand("NOSUCH")
        self.events.append("never")

    @verb
    def recovering(self, inner: Verb[Any]) -> Steps[list[bytes]]:
        try:
            found: list[bytes] = yield inner
        except (errors.Problem, CommandRefused) as error:
            self.events.append(type(error).__name__)
            found = yield self.echo("instead")
        return found

    @verb
    def nested(self, depth: int) -> Steps[list[bytes]]:
        found: list[bytes] = yield (self.nested(depth - 1) if depth else self.echo("deep"))
        return [*found, str(depth).encode()]

    @verb
    def awaiting(self) -> Steps[str]:
        text: str = yield _later("waited")
        yield Pause(0.001)
        return text

    @verb
    def undoing(self) -> Steps[None]:
        try:
            yield RedisCommand("SET", "lock", "1")
            self.events.append("locked")
            yield RedisCommand("BLPOP", "never", "0")
        except asyncio.CancelledError:
            self.events.append("cancelled")
            yield RedisCommand("DEL", "lock")
            self.events.append("undone")
            raise

    @verb
    def stubborn(self) -> Steps[str]:
        try:
            yield RedisCommand("BLPOP", "never", "0")
        except asyncio.CancelledError:
            return "stayed"
        return "popped"

    @verb
    def wrong(self) -> Steps[None]:
        yield RedisCommand("PING")
        raise ZeroDivisionError


async def _later(text: str) -> str:
    await asyncio.sleep(0)
    return text


class EndedRun:
    """A run, and how it ended."""

    def __init__(self, verb: Verb[Any]) -> None:
        self.ends: list[tuple[Any, BaseException | None]] = []
        self._ended = asyncio.Event()
        self.run = EagerRun(verb, self._on_end)

    def _on_end(self, result: Any, error: BaseException | None) -> None:
        self.ends.append((result, error))
        self._ended.set()

    async def result(self) -> Any:
        """Returns the result, or raises the error."""
        async with asyncio.timeout(60):
            await self._ended.wait()
        [(result, error)] = self.ends
        if error is not None:
            raise error
        return result


@contextlib.asynccontextmanager
async def _verbs(uri: str) -> AsyncIterator[EchoVerbs]:
    settings = BatchSettings(timeout=60, connect_timeout=60)
    async with keyspace.connected(uri, settings) as client:
        yield EchoVerbs(client)


@pytest.fixture
def verbs(runner: asyncio.Runner, redis_server: Backend) -> Iterator[EchoVerbs]:
    opened = _verbs(redis_server.uri)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


async def test_verb_without_calls_has_ended_when_its_run_is_made(verbs: EchoVerbs) -> None:
    assert EndedRun(verbs.nothing()).ends == [("done", None)]


async def test_verb_begins_at_once_and_gets_its_answers_without_a_task(verbs: EchoVerbs) -> None:
    before = len(asyncio.all_tasks())
    runs = [EndedRun(verbs.echo("a", str(number), "b")) for number in range(20)]
    assert len(asyncio.all_tasks()) == before
    found = [await run.result() for run in runs]
    assert found == [[b"a", str(number).encode(), b"b"] for number in range(20)]
    failed = EndedRun(verbs.refused())
    assert verbs.events == ["sent"]
    with pytest.raises(CommandRefused):
        await failed.result()


async def test_nested_verbs_return_through_all_levels(verbs: EchoVerbs) -> None:
    assert await EndedRun(verbs.nested(3)).result() == [b"deep", b"0", b"1", b"2", b"3"]
    # No call of Python nests: neither the stack nor its limit counts.
    assert len(await EndedRun(verbs.nested(5_000)).result()) == 5_002


async def test_requests_of_a_list_are_answered_in_its_order(verbs: EchoVerbs) -> None:
    expected = [b"a", [b"b", b"c"], "d"]
    assert await EndedRun(verbs.together()).result() == expected
    assert await verbs.together() == expected


async def test_coroutine_and_pause_are_waited_for(verbs: EchoVerbs) -> None:
    assert await EndedRun(verbs.awaiting()).result() == "waited"


async def test_error_of_a_nested_verb_is_raised_where_it_was_yielded(verbs: EchoVerbs) -> None:
    found = await EndedRun(verbs.recovering(verbs.refused())).result()
    assert found == [b"instead"]
    assert verbs.events == ["sent", "ResponseError"]
    with pytest.raises(ZeroDivisionError):
        await EndedRun(verbs.recovering(verbs.wrong())).result()


async def test_store_that_is_unavailable_raises_inside_the_verb() -> None:
    settings = BatchSettings(connect_timeout=0.1)
    async with keyspace.connected("unix:///nowhere/redis.sock", settings) as client:
        verbs = EchoVerbs(client)
        with pytest.raises(errors.StoreUnavailable):
            await EndedRun(verbs.echo("a")).result()
        with pytest.raises(errors.StoreUnavailable):
            await EndedRun(verbs.together()).result()
        with pytest.raises(errors.StoreUnavailable):  # what it does instead fails too
            await EndedRun(verbs.recovering(verbs.echo("a"))).result()
        assert verbs.events == ["StoreUnavailable"]


async def test_store_that_dies_raises_inside_the_verb(server: servers.RedisServer) -> None:
    async with _verbs(server.uri) as verbs:
        run = EndedRun(verbs.recovering(verbs.stubborn()))
        server.signal(signal.SIGKILL)
        with pytest.raises(errors.StoreUnavailable):
            await run.result()
        assert verbs.events == ["StoreUnavailable"]


async def test_cancelled_verb_may_undo_what_it_did(server: servers.RedisServer) -> None:
    async with _verbs(server.uri) as verbs:
        run = EndedRun(verbs.recovering(verbs.undoing()))
        await asyncio.to_thread(servers.wait_for, lambda: verbs.events == ["locked"], "the lock")
        with server.client() as other:
            assert other.get("lock") == b"1"
            run.run.cancel()
            other.rpush("never", "1")
        with pytest.raises(asyncio.CancelledError):
            await run.result()
        assert verbs.events == ["locked", "cancelled", "undone"]
        assert await verbs.client.command("EXISTS", "lock") == 0


async def test_verb_that_catches_the_cancellation_returns_its_result(
    server: servers.RedisServer,
) -> None:
    async with _verbs(server.uri) as verbs:
        run = EndedRun(verbs.stubborn())
        run.run.cancel()
        assert await run.result() == "stayed"


async def test_cancelling_a_run_that_has_ended_does_nothing(verbs: EchoVerbs) -> None:
    run = EndedRun(verbs.echo("a"))
    assert await run.result() == [b"a"]
    run.run.cancel()
    assert await run.result() == [b"a"]


@pytest.mark.parametrize("name", ["refused", "wrong", "echo"])
async def test_ended_run_is_freed_without_the_garbage_collector(
    verbs: EchoVerbs, name: str
) -> None:
    """The collector comes rarely, and a run holds a request with its body."""
    ended = asyncio.Event()

    class Holder:
        def on_end(self, result: Any, error: BaseException | None) -> None:
            ended.set()

    gc.disable()
    try:
        holder = Holder()
        freed = weakref.ref(holder)
        run = EagerRun(getattr(verbs, name)(), holder.on_end)
        await ended.wait()
        del run, holder
        await asyncio.sleep(0)
        assert freed() is None
    finally:
        gc.enable()
