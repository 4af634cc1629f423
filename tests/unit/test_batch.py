# SPDX-License-Identifier: Apache-2.0
"""The command batch is bounded, times out, and reconnects by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import redis.exceptions
import uvloop
from msgspec.structs import replace
from redis._parsers import _AsyncHiredisParser

from tests.support import servers
from tests.support.servers import RedisServer
from tests.support.stores import PATIENT, PATIENT_OPTIONS
from zaqar_redis import errors
from zaqar_redis.keyspace import blocking
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace.keys import QueueKeys
from zaqar_redis.keyspace.script import Call, Script
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.records import Lease
from zaqar_redis.storage.redis import create

#: For a store that hangs. While it does not, a loaded machine may answer later than that, too.
QUICK = BatchSettings(timeout=0.5, connect_timeout=0.5, backoff=0.01, backoff_max=0.05)


@contextlib.asynccontextmanager
async def _client(
    server: RedisServer, settings: BatchSettings = PATIENT
) -> AsyncIterator[keyspace.AsyncClient]:
    async with keyspace.connected(server.uri, settings) as client:
        yield client


@contextlib.contextmanager
def _paused(server: RedisServer) -> Iterator[None]:
    server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal(signal.SIGCONT)


async def _back(call: Callable[[], Awaitable[Any]]) -> Any:
    """Waits until the store answers; returns its reply."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(errors.StoreUnavailable):
                return await call()
            await asyncio.sleep(0.01)


async def _outcomes(answers: Sequence[Awaitable[Any]]) -> list[Any]:
    return [
        type(one) if isinstance(one, BaseException) else one
        for one in await asyncio.gather(*answers, return_exceptions=True)
    ]


async def test_every_caller_gets_the_answer_to_its_own_command(server: RedisServer) -> None:
    settings = replace(PATIENT, batch_commands=7, batch_bytes=1000)
    async with _client(server, settings) as client:
        texts = [str(number) * (number % 50 + 1) for number in range(2000)]
        answers = await asyncio.gather(*(client.command("ECHO", text) for text in texts))
        assert answers == [text.encode() for text in texts]


async def test_first_commands_of_a_turn_do_not_wait_for_its_end(server: RedisServer) -> None:
    async with _client(server) as client:
        assert isinstance(client, keyspace.BatchingClient)
        await client.command("PING")  # it is connected
        answers = []
        for waiting in (1, 0, 1, 2, 3):
            answers.append(client.command("INCR", "n"))
            assert len(client.batch._unsent) == waiting
        assert await asyncio.gather(*answers) == [1, 2, 3, 4, 5]


async def test_error_reply_reaches_its_own_caller_only(server: RedisServer) -> None:
    async with _client(server) as client:
        commands = [("ECHO", "a"), ("NOSUCH",), ("ECHO", "b"), ("GET",), ("ECHO", "c")]
        got = await _outcomes([client.command(*command) for command in commands])
        refused = redis.exceptions.ResponseError
        assert got == [b"a", refused, b"b", refused, b"c"]


async def test_commands_over_in_flight_limit_are_refused_as_overloaded(server: RedisServer) -> None:
    async with _client(server, replace(PATIENT, in_flight=50)) as client:
        got = await _outcomes([client.command("ECHO", "a") for _ in range(80)])
        assert got == [b"a"] * 50 + [errors.Overloaded] * 30
        assert await _outcomes([client.command("ECHO", "a")] * 1) == [b"a"]


async def test_commands_over_backlog_bytes_are_refused_as_overloaded(server: RedisServer) -> None:
    async with _client(server, replace(PATIENT, backlog_bytes=100_000)) as client:
        got = await _outcomes([client.command("ECHO", "a" * 30_000) for _ in range(5)])
        assert [one == errors.Overloaded for one in got] == [False] * 3 + [True] * 2
        got = await _outcomes([client.command("ECHO", "a" * 100_001)])
        assert got == [errors.Overloaded]
        assert await client.command("ECHO", "b") == b"b"


async def test_command_cancelled_before_sending_is_not_sent(server: RedisServer) -> None:
    async with _client(server) as client:
        asyncio.ensure_future(client.command("INCR", "n")).cancel()
        assert await client.command("ECHO", "a") == b"a"
        assert await client.command("GET", "n") is None


async def test_command_cancelled_while_pending_does_not_shift_replies(server: RedisServer) -> None:
    async with _client(server, replace(PATIENT, timeout=20)) as client:
        await client.command("PING")
        with _paused(server):
            first, leaving, last = (
                asyncio.ensure_future(client.command("ECHO", text)) for text in "abc"
            )
            await asyncio.sleep(0.05)  # they are written, but not read yet
            leaving.cancel()
        assert (await first, await last) == (b"a", b"c")


async def test_failed_connection_is_logged_with_its_reason(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    # The commands' own level is higher.
    caplog.set_level(logging.WARNING, "zaqar_redis.keyspace.outages")
    with _paused(server):
        async with _client(server, QUICK):
            await asyncio.to_thread(servers.wait_for, lambda: bool(caplog.messages), "a line")
    assert caplog.messages[0] == f"no connection to {server.uri}: no answer within 0.5 s"


async def test_commands_to_a_hanging_store_time_out(server: RedisServer) -> None:
    async with _client(server, QUICK) as client:
        await _back(partial(client.command, "PING"))
        with _paused(server):
            start = time.monotonic()
            got = await _outcomes([client.command("ECHO", "a") for _ in range(20)])
            assert got == [errors.StoreTimeout] * 20
            assert time.monotonic() - start >= QUICK.timeout
            with pytest.raises(errors.StoreUnavailable) as lost:
                await client.command("PING")
            assert str(lost.value.__cause__) == "no answer within 0.5 s"
            # From now on commands fail at once: there is no connection.
            assert await _outcomes([client.command("PING")]) == [errors.StoreUnavailable]
        assert await _back(partial(client.command, "ECHO", "b")) == b"b"


async def test_command_that_follows_one_that_timed_out_is_not_sent_over_the_same_connection(
    server: RedisServer,
) -> None:
    """It would get the reply of the other one."""
    following: list[asyncio.Future[Any]] = []
    async with _client(server, QUICK) as client:
        await _back(partial(client.command, "PING"))
        with _paused(server):
            late = asyncio.ensure_future(client.command("ECHO", "late"))
            late.add_done_callback(
                lambda _: following.append(asyncio.ensure_future(client.command("ECHO", "new")))
            )
            assert await _outcomes([late]) == [errors.StoreTimeout]
        assert isinstance(following[0].exception(), errors.StoreUnavailable)


async def test_command_whose_refusal_ends_the_connection_fails_with_those_that_follow(
    server: RedisServer,
) -> None:
    def give_up(pending: object, refusal: Exception) -> bool:
        raise redis.exceptions.ConnectionError("the server has become a replica")

    client = keyspace.BatchingClient(server.uri, PATIENT, take_over=give_up)
    await client.start()
    commands = [("SET", "k", "v"), ("LPUSH", "k", "v"), ("GET", "k")]
    sent = [client.command(*each) for each in commands]
    async with asyncio.timeout(60):
        got = await _outcomes(sent)
    assert got == [b"OK", errors.StoreUnavailable, errors.StoreUnavailable]
    await client.close()


async def test_commands_to_a_killed_store_fail_at_once_and_work_after_its_restart(
    server: RedisServer,
) -> None:
    # The server has died before SIGCONT.
    with contextlib.suppress(ProcessLookupError):
        async with _client(server, replace(PATIENT, timeout=600, backoff_max=0.05)) as client:
            await client.command("PING")
            with _paused(server):
                waiting = [asyncio.ensure_future(client.command("PING")) for _ in range(20)]
                await asyncio.sleep(0.05)
                server.signal(signal.SIGKILL)
                async with asyncio.timeout(60):  # much less than the 600 s of a command
                    assert await _outcomes([*waiting]) == [errors.StoreUnavailable] * 20
            assert await _outcomes([client.command("PING")]) == [errors.StoreUnavailable]
            server.start()
            await _back(partial(client.command, "PING"))
            defer = Script("queue_defer")(QueueKeys("p", "q"), now=0)
            assert await client.call(defer) == 0


async def test_commands_of_the_turn_in_which_a_store_is_back_get_their_own_answers(
    server: RedisServer,
) -> None:
    with contextlib.suppress(ProcessLookupError):
        async with _client(server, replace(PATIENT, backoff_max=0.05)) as client:
            assert isinstance(client, keyspace.BatchingClient)
            await asyncio.gather(*(client.command("PING") for _ in range(3)))
            server.signal(signal.SIGKILL)
            while await _outcomes([client.command("PING")]) == [b"PONG"]:
                pass
            server.start()
            async with asyncio.timeout(60):
                await client.batch._connected.wait()
            answers = [client.command("INCR", "n") for _ in range(5)]
            assert await _outcomes(answers) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("options", ["", "?socket_timeout=60"])
def test_callers_that_send_in_all_iterations_get_their_own_answers(
    server: RedisServer, run: Callable[[Coroutine[Any, Any, None]], None], options: str
) -> None:
    async def call(client: keyspace.AsyncClient, name: str) -> None:
        for number in range(150):
            text = f"{name}-{number}"
            first = client.command("ECHO", text)
            await asyncio.gather(
                *(client.command("SET", f"{name}-{other}", text) for other in range(number % 3))
            )
            assert await first == text.encode()

    async def send() -> None:
        async with keyspace.connected(server.uri + options, PATIENT) as client:
            await asyncio.gather(*(call(client, str(number)) for number in range(6)))

    run(send())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_replicas_are_asked_again_when_they_have_answered_only(
    server: RedisServer, run: Callable[[Coroutine[Any, Any, set[int]]], set[int]]
) -> None:
    settings = replace(PATIENT, ack_replicas=1, ack_timeout=0.002, memory_share=0)

    async def send() -> set[int]:
        async with _client(server, settings) as client:
            assert isinstance(client, keyspace.BatchingClient)
            batch, waiting, answers = client.batch, set(), 0
            pending: list[asyncio.Future[Any]] = []
            while answers < 40:
                await asyncio.sleep(0)
                left = [each for each in pending if not each.done()]
                answers += len(pending) - len(left)
                new = [client.command("SET", "k", "v") for _ in range(6 - len(left))]
                pending = left + new[: 1 + answers % 3]
                waiting.add(sum(each.command.command()[0] == "WAIT" for each in batch._sent))
            await asyncio.gather(*pending, return_exceptions=True)
            return waiting

    assert run(send()) == {0, 1}


def test_commands_to_a_connection_that_closes_fail_as_those_to_one_that_is_lost(
    server: RedisServer,
) -> None:
    async def send() -> list[Any]:
        async with _client(server) as client:
            assert isinstance(client, keyspace.BatchingClient)
            assert await client.command("PING")
            assert client.batch._early_writer is not None
            client.batch._early_writer.close()
            await asyncio.sleep(0)  # it is closed, and not known to be lost
            assert client.batch.is_connected
            return await _outcomes([client.command("INCR", "n") for _ in range(3)])

    assert uvloop.run(send()) == [errors.StoreUnavailable] * 3


async def test_unknown_scripts_are_loaded_into_redis(server: RedisServer) -> None:
    async with _client(server) as client:
        defer = Script("queue_defer")(QueueKeys("p", "q"), now=0)
        for _ in range(2):
            assert await asyncio.gather(*(client.call(defer) for _ in range(20))) == [0] * 20
            assert await client.command("SCRIPT", "EXISTS", defer.script.sha) == [1]
            await client.command("SCRIPT", "FLUSH")


async def test_source_is_sent_again_for_unknown_scripts_only(server: RedisServer) -> None:
    async with _client(server) as client:
        defer = Script("queue_defer")(QueueKeys("p", "q"), now=0)
        sent: list[Awaitable[Any]] = [
            client.command("ECHO", "a"),
            client.call(defer),
            client.command("EVALSHA", defer.script.sha, 0),
            client.command("INCR", "n"),
            client.call(defer),
        ]
        assert await _outcomes(sent) == [b"a", 0, redis.exceptions.NoScriptError, 1, 0]
    with server.client() as admin:
        stats = admin.info("commandstats")
        counted = {name: stats[f"cmdstat_{name}"]["calls"] for name in ("eval", "incr", "echo")}
        assert counted == {"eval": 2, "incr": 1, "echo": 1}


async def test_refusal_is_the_cause_of_its_translation(server: RedisServer) -> None:
    async with _client(server) as client:
        with server.client() as admin:
            admin.config_set("maxmemory", "1")
        with pytest.raises(errors.StoreFull, match=r"The store .* is full") as full:
            await client.command("SET", "a", "b")
        assert isinstance(full.value.__cause__, redis.exceptions.OutOfMemoryError)
        with pytest.raises(keyspace.CommandRefused) as refused:
            await client.command("GET")
        assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("MISCONF Errors writing to the AOF file: No space left on device", "disk"),
        ("LOADING Redis is loading the dataset in memory", "loads its data"),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL", "script"),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is", "its primary"),
        ("READONLY You can't write against a read only replica.", "it is a replica"),
        ("UNBLOCKED force unblock from blocking operation, instance state", "it is a replica"),
        ("CLUSTERDOWN The cluster is down", "nodes of its cluster"),
        ("CLUSTERDOWN Hash slot not served", "nodes of its cluster"),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "a slot of its cluster"),
        ("NOREPLICAS Not enough good replicas to write.", "min-replicas-to-write"),
        ("ERR max number of clients reached", "maxclients"),
    ],
)
def test_refusal_that_passes_says_what_it_means(said: str, meaning: str) -> None:
    refusal = _AsyncHiredisParser.parse_error(said)
    translated = keyspace.translate_error(refusal, "busy", in_cluster=True)
    assert type(translated) is errors.StoreRefuses
    words = f"The store busy refuses this at the moment: .*{meaning}.*[.] Please try again later[.]"
    assert re.fullmatch(words, translated.text)


async def test_store_that_cannot_write_to_its_disk_says_so(server: RedisServer) -> None:
    async with _client(server) as client:
        with server.client() as admin:
            admin.config_set("save", "3600 1")
            shutil.rmtree(server.folder)
            admin.bgsave()
            servers.wait_for(
                lambda: admin.info("persistence")["rdb_last_bgsave_status"] == "err",
                "the server to notice",
            )
        with pytest.raises(errors.StoreRefuses, match=r"cannot write to its disk.* \(MISCONF"):
            await client.command("SET", "a", "b")
        assert await client.command("GET", "a") is None


async def test_repeated_refusals_of_a_kind_are_one_line_with_their_number(
    server: RedisServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "zaqar_redis.keyspace.refusals")
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    text = f"the store s refuses: {errors.StoreFull('s')}"

    async def refuse(client: keyspace.AsyncClient, times: int) -> None:
        for _ in range(times):
            with pytest.raises(errors.StoreUnavailable):
                await client.command("SET", "a", "b")

    client = keyspace.client(server.uri, QUICK, "s")
    await client.start()
    with server.client() as admin:
        admin.config_set("maxmemory", "1")
    await refuse(client, 5)
    assert caplog.messages == [text]
    now += 29
    await refuse(client, 2)
    assert caplog.messages == [text]
    now += 1
    await refuse(client, 1)
    assert caplog.messages == [text, f"{text} (6 more in the 30 s before)"]
    with server.client() as admin:
        admin.config_set("maxmemory", "0")
        admin.execute_command("REPLICAOF", "127.0.0.1", "1")
    await refuse(client, 1)  # another kind is logged at once
    assert len(caplog.messages) == 3
    assert "read only replica" in caplog.messages[2]
    await client.close()


async def test_replies_are_matched_however_many_reads_they_come_in(server: RedisServer) -> None:
    """Many in one read, and one in many reads."""
    async with _client(server, replace(PATIENT, timeout=20)) as client:
        large = "x" * 1_000_000
        await client.command("PING")
        with _paused(server):
            texts = [large if number % 20 == 10 else str(number) for number in range(100)]
            answers = [client.command("ECHO", text) for text in texts]
            await asyncio.sleep(0.05)  # all that Redis takes is written
        found = await asyncio.gather(*answers)
        assert [len(text) for text in found] == [len(text) for text in texts]
        assert found == [text.encode() for text in texts]


async def test_driver_starts_while_the_store_is_unreachable(server: RedisServer) -> None:
    server.stop()
    driver = create(server.uri, {"connect_timeout": 0.2, "backoff_max": 0.05, "unknown": 1})
    await driver.start()
    calls: list[Callable[[], Awaitable[Any]]] = [
        driver.ping,
        lambda: driver.queues.get("p", "q"),
        lambda: driver.messages.pop("p", "q", 1),
        lambda: driver.claims.create("p", "q", Lease(60, 60), limit=1),
        lambda: driver.sweeper.sweep(60),
    ]
    for call in calls:
        with pytest.raises(errors.StoreUnavailable):
            await call()
    server.start()
    await _back(driver.ping)
    assert await driver.queues.create("p", "q", {})
    await driver.close()
    with pytest.raises(errors.StoreUnavailable):
        await driver.ping()


async def test_full_redis_raises_store_unavailable(server: RedisServer) -> None:
    driver = create(server.uri, PATIENT_OPTIONS)
    await driver.start()
    with server.client() as admin:
        admin.config_set("maxmemory", "1")
    with pytest.raises(errors.StoreUnavailable):
        await driver.queues.create("p", "q", {})
    with server.client() as admin:
        admin.config_set("maxmemory", "0")
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(errors.StoreFull):  # until it has looked again
                assert await driver.queues.create("p", "q", {})
                break
            await asyncio.sleep(0.01)
    await driver.close()


def test_blocking_client_goes_on_to_watch_the_memory_of_a_store_that_was_busy(
    server: RedisServer,
) -> None:
    client = blocking.client(server.uri, BatchSettings(memory_share=0.5))
    create = Script("queue_create")(QueueKeys("p", "q"), now=0, epoch="0" * 16, metadata="{}")
    is_busy = partial(_fails, errors.StoreRefuses, partial(client.command, "PING"))
    is_full = partial(_fails, errors.StoreFull, partial(client.call, create))
    with server.client() as admin, ThreadPoolExecutor(1) as thread:
        admin.config_set("lua-time-limit", 1)
        busy = thread.submit(_run_forever, server)
        servers.wait_for(is_busy, "the server to be busy")
        with pytest.raises(errors.StoreRefuses):  # when it looks at the memory
            client.call(create)
        admin.script_kill()
        busy.result()
        admin.config_set("maxmemory", 2 * admin.info("memory")["used_memory"] - 1)
        servers.wait_for(is_full, "the client to look again")
    client.close()


def _run_forever(server: RedisServer) -> None:
    with server.client() as client, contextlib.suppress(redis.exceptions.ResponseError):
        client.eval("while true do end", 0)


def _fails(error: type[Exception], call: Callable[[], object]) -> bool:
    try:
        call()
    except error:
        return True
    return False


def test_verbs_run_over_a_blocking_client_too(server: RedisServer) -> None:
    defer = Script("queue_defer")(QueueKeys("p", "q"), now=0)
    patient = blocking.client(server.uri, PATIENT)
    assert patient.call(defer) == 0
    patient.command("SCRIPT", "FLUSH")
    assert patient.call(defer) == 0
    patient.close()
    client = blocking.client(server.uri, QUICK)
    servers.wait_for(partial(_is_answered, client, defer), "an answer in time")
    with _paused(server), pytest.raises(errors.StoreTimeout):
        client.call(defer)
    server.signal(signal.SIGKILL)
    with pytest.raises(errors.StoreUnavailable):
        client.call(defer)
    client.close()


def _is_answered(client: blocking.BlockingClient, defer: Call) -> bool:
    with contextlib.suppress(errors.StoreUnavailable):
        return bool(client.call(defer) == 0)
    return False


@pytest.mark.parametrize(
    "uri",
    [
        *("redis://host/notanumber", "redis://host:notaport", "redis://host:99999999"),
        *("redis://host/1/2", "unix://", "http://host", "", "redis://[::1"),
    ],
)
def test_uri_that_names_no_redis_is_refused(uri: str) -> None:
    with pytest.raises(errors.BadConfiguration, match="storage URI"):
        keyspace.validate_uri(uri)
