# SPDX-License-Identifier: Apache-2.0
"""The store of one Redis, and a control store, for callers that block."""

from __future__ import annotations

from zaqar_redis import clock
from zaqar_redis.keyspace.blocking import BlockingClient
from zaqar_redis.keyspace.script import Steps, verb
from zaqar_redis.storage.contract import PostDeadLetter
from zaqar_redis.storage.redis.catalogue import RedisCatalogue
from zaqar_redis.storage.redis.claims import RedisClaims
from zaqar_redis.storage.redis.messages import RedisMessages
from zaqar_redis.storage.redis.pools import RedisFlavors, RedisPools
from zaqar_redis.storage.redis.queues import RedisQueues
from zaqar_redis.storage.redis.subscriptions import RedisSubscriptions
from zaqar_redis.storage.redis.transfer import RedisTransfer


class BlockingRedisStore:
    """The store of one Redis.  Its verbs are run, not awaited."""

    def __init__(self, client: BlockingClient, messages: type[RedisMessages] = RedisMessages):
        self.client = client
        self.queues = RedisQueues(client, clock.store)
        self.messages = messages(client, clock.store)
        self.claims = RedisClaims(client, clock.store, self.messages.dead_letter)
        self.subscriptions = RedisSubscriptions(client, clock.store)
        self.transfer = RedisTransfer(client)

    def route_dead_letters(self, dead_letter: PostDeadLetter) -> None:
        self.messages.dead_letter_route = self.claims.dead_letter_route = dead_letter

    @verb
    def start(self) -> Steps[None]:
        """Does nothing: a connection is opened when it is needed."""
        yield from ()

    @verb
    def close(self) -> Steps[None]:
        self.client.close()
        yield from ()

    @verb
    def ping(self) -> Steps[None]:
        self.client.command("PING")
        yield from ()


class BlockingRedisControl:
    """The control store in one Redis.  Its verbs are run, not awaited."""

    def __init__(self, client: BlockingClient) -> None:
        self.client = client
        self.pools = RedisPools(client)
        self.flavors = RedisFlavors(client)
        self.catalogue = RedisCatalogue(client, clock.store)
