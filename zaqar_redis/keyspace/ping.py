# SPDX-License-Identifier: Apache-2.0
"""Whether a store works, all of it."""

from __future__ import annotations

import asyncio

from zaqar_redis import errors
from zaqar_redis.keyspace.client import AsyncClient
from zaqar_redis.keyspace.cluster_client import ClusterClient


async def ping(client: AsyncClient) -> None:
    """Raises StoreUnavailable: it does not answer; of a cluster: a primary does not, or says that
    the cluster fails."""
    if not isinstance(client, ClusterClient):
        await client.command("PING")
        return
    told = await asyncio.gather(*(node.command("CLUSTER", "INFO") for node in client.nodes()))
    if not all(b"cluster_state:ok" in each for each in told):
        raise errors.StoreUnavailable(client.name)
