# SPDX-License-Identifier: Apache-2.0
"""Two Redis: stock Zaqar's, filled by its own code, and ours."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, TypeVar

from oslo_config import cfg
from zaqar import bootstrap

from tests.support import servers
from tests.support.backends import Backend
from tests.support.command_line import CommandLine
from tests.support.stores import PATIENT_OPTIONS
from zaqar_redis.records import Message, MessageListing, NewMessage
from zaqar_redis.storage import pools

T = TypeVar("T")
Store = Backend | servers.RedisServer

CLIENT = "8f4c1f2e-3c56-4b5e-9e0a-6f5a5d0c7b11"


class StockZaqarStorage:
    """Stock Zaqar's storage over a Redis, in this process."""

    def __init__(self, uri: str) -> None:
        """*uri* is spelt as stock does."""
        conf = cfg.ConfigOpts()
        conf([], project="zaqar", default_config_files=[])
        parts = bootstrap.Bootstrap(conf)
        conf.set_override("enable_checksum", True)
        for role in ("message_store", "management_store"):
            conf.set_override(role, "redis", group="drivers")
            conf.set_override("uri", uri, group=f"drivers:{role}:redis")
        self.queues = parts.storage.queue_controller
        self.messages = parts.storage.message_controller
        self.claims = parts.storage.claim_controller
        self.subscriptions = parts.storage.subscription_controller

    @staticmethod
    def uri(server: servers.RedisServer) -> str:
        """Returns the URI of the unix socket in stock's spelling."""
        return f"redis:{server.socket}?socket_timeout=10"

    def make(self, project: str | None, queue: str, **metadata: Any) -> None:
        self.queues.create(queue, metadata=metadata, project=project)

    def post(
        self, project: str | None, queue: str, *bodies: Any, ttl: int = 3600, delay: int = 0
    ) -> list[str]:
        messages = [{"ttl": ttl, "body": body, "delay": delay} for body in bodies]
        ids: list[str] = self.messages.post(
            queue, messages, client_uuid=uuid.UUID(CLIENT), project=project
        )
        return ids

    def claim(self, project: str | None, queue: str, limit: int, ttl: int = 300) -> Any:
        """Claims messages; returns the id and the documents of the messages."""
        about = {"ttl": ttl, "grace": 60}
        claim, messages = self.claims.create(queue, about, project=project, limit=limit)
        return claim, list(messages)

    def subscribe(self, project: str | None, queue: str, *subscribers: str) -> list[str]:
        return [
            self.subscriptions.create(queue, each, 7200, {"for": each}, project=project)
            for each in subscribers
        ]


class ImportHarness:
    def __init__(self, theirs: servers.RedisServer, ours: Store) -> None:
        self.theirs = theirs
        self.ours = ours
        self.stock = StockZaqarStorage(StockZaqarStorage.uri(theirs))
        self.shell = CommandLine(["--storage", ours.uri])

    @property
    def words(self) -> list[str]:
        """The words of the command, without its target."""
        return ["import-stock", "--from", StockZaqarStorage.uri(self.theirs)]

    def run(self, *words: str, code: int = 0) -> tuple[list[dict[str, Any]], str]:
        """Runs the import; returns its rows, and its notices."""
        outcome = self.shell.run(*self.words, *words, "-f", "json")
        assert outcome.returncode == code, outcome.stderr
        assert "Traceback" not in outcome.stderr
        return json.loads(outcome.stdout), outcome.stderr

    def content(self) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
        """Returns the keys of both stores, as `dumped` does."""
        return dumped(self.theirs), dumped(self.ours)

    def check(self) -> None:
        assert self.shell.shown("check") == []


def dumped(server: Store) -> dict[bytes, bytes]:
    """Returns the content of each key, with its time of expiry."""
    return {
        key: hashlib.sha256(content + str(expiry).encode()).digest()
        for key, content, expiry in _keys(server)
    }


def copy(source: Store, target: Store) -> None:
    """Copies all keys to an empty Redis."""
    with target.client() as client, client.pipeline(transaction=False) as pipeline:
        for key, content, expiry in _keys(source):
            pipeline.restore(key, max(0, expiry), content, absttl=True)
        pipeline.execute()


def _keys(server: Store) -> Iterator[tuple[bytes, bytes, int]]:
    """Yields each key with its dump and its time of expiry, or a negative one."""
    with server.client() as client, client.pipeline(transaction=False) as pipeline:
        keys = list(client.scan_iter(count=1000))
        for key in keys:
            pipeline.dump(key)
            pipeline.pexpiretime(key)
        replies = iter(pipeline.execute())
    for key, content, expiry in zip(keys, replies, replies, strict=True):
        yield key, content or b"", expiry


class ImportedStore:
    """Our store, accessed by the storage contract."""

    def __init__(self, uri: str, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.driver = pools.create(uri, uri, PATIENT_OPTIONS)

    def run(self, awaitable: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await awaitable

        return self._runner.run(awaited())

    def delivers(self, project: str, queue: str) -> bool:
        """Posts a message; returns whether notifiers find that it is to be delivered."""

        async def is_due() -> bool:
            await self.driver.messages.post(
                project,
                queue,
                [NewMessage(b"1")],
                client=CLIENT,
                default_ttl=3600,
                size=1,
                idempotency_key=None,
            )
            store = (await self.driver.router.find(project, queue)).driver
            assert store.deliveries
            return (project, queue) in [each async for each in store.deliveries.due()]

        return self._runner.run(is_due())

    def messages(self, project: str, queue: str, everything: bool = True) -> Sequence[Message]:
        listing = MessageListing(100_000, include_claimed=everything, include_delayed=everything)
        page = self.run(self.driver.messages.list(project, queue, listing))
        return page.items
