# SPDX-License-Identifier: Apache-2.0
"""However many stores are away, commands ask them side by side."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support import servers
from tests.support.command_line import CommandLine
from zaqar_redis.storage import pools

#: Seconds: less than commands of tests wait for one store.
_PATIENCE = 8


class _SilentStores:
    """Two pools whose stores take connections, and say nothing."""

    def __init__(self, default: servers.RedisServer, stores: list[servers.RedisServer]) -> None:
        self.default = default
        self._stores = stores
        self._listeners = [socket.socket(socket.AF_UNIX) for _ in stores]

    def begin(self) -> None:
        for store, listener in zip(self._stores, self._listeners, strict=True):
            store.kill()
            store.socket.unlink()
            listener.settimeout(_PATIENCE)
            listener.bind(str(store.socket))
            listener.listen()

    def wait_until_all_are_asked(self) -> None:
        """Waits for a connection to each, none of which gets an answer; then they work again."""
        with contextlib.ExitStack() as unanswered:
            for listener in self._listeners:
                unanswered.enter_context(listener.accept()[0])
        self.end()

    def end(self) -> None:
        for store, listener in zip(self._stores, self._listeners, strict=True):
            listener.close()
            if not store.is_alive:
                store.start()


@pytest.fixture
def silent_stores() -> Iterator[_SilentStores]:
    with contextlib.ExitStack() as stack:
        default, *others = [stack.enter_context(servers.redis_server()) for _ in range(3)]
        shell = CommandLine(["--storage", default.uri])
        for name, each in zip(("one", "two"), others, strict=True):
            shell.done("pool", "create", name, "--uri", each.uri)
        stores = _SilentStores(default, others)
        stores.begin()
        try:
            yield stores
        finally:
            stores.end()


@pytest.mark.parametrize("command", [("doctor",), ("upgrade", "--check")])
def test_command_asks_a_store_while_another_does_not_answer(
    silent_stores: _SilentStores, command: tuple[str, ...]
) -> None:
    shell = CommandLine(["--storage", silent_stores.default.uri])
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(shell.run, *command)
        silent_stores.wait_until_all_are_asked()
        assert "Traceback" not in asked.result().stderr


def test_stores_are_opened_for_a_watcher_while_another_does_not_answer(
    silent_stores: _SilentStores,
) -> None:
    uri = silent_stores.default.uri

    async def opened() -> int:
        driver = pools.create(uri, uri, {"connect_timeout": 60})
        await driver.start()
        try:
            return len(await driver.router.stores.drivers())
        finally:
            await driver.close()

    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(asyncio.run, opened())
        silent_stores.wait_until_all_are_asked()
        assert asked.result() == 3
