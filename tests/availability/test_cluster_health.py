# SPDX-License-Identifier: Apache-2.0
"""A service on a Redis Cluster is ready only while all of the cluster works."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest

from tests.realtime.crowd import until
from tests.support import servers
from tests.support.redis_cluster import redis_cluster
from zaqar_redis import errors
from zaqar_redis.storage.redis import RedisDriver, create


def test_service_is_not_ready_while_a_primary_of_its_cluster_is_away() -> None:
    with (
        redis_cluster() as cluster,
        servers.service(cluster.uri) as service,
        httpx.Client(base_url=service.url, verify=False, timeout=60) as http,
    ):

        def ready() -> int:
            return http.get("/healthcheck/ready").status_code

        servers.wait_for(lambda: ready() == 200, "the service to be ready")
        lost = cluster.primaries[1]
        lost.kill()
        servers.wait_for(lambda: ready() == 503, "the loss to be noticed")
        assert "default" in http.get("/healthcheck/ready").text
        assert http.get("/healthcheck/live").status_code < 300
        lost.start()
        servers.wait_for(lambda: ready() == 200, "the service to be ready again")


@contextlib.asynccontextmanager
async def _started(uri: str) -> AsyncIterator[RedisDriver]:
    driver = create(uri, {"connect_timeout": 1, "timeout": 2})
    await driver.start()
    try:
        yield driver
    finally:
        await driver.close()


async def _answers(driver: RedisDriver) -> bool:
    try:
        await driver.ping()
    except errors.StoreUnavailable:
        return False
    return True


async def test_cluster_without_full_coverage_does_not_answer_while_a_primary_is_away() -> None:
    with redis_cluster(words=("--cluster-require-full-coverage", "no")) as cluster:
        async with _started(cluster.uri) as driver:
            await until(partial(_answers, driver), "the cluster to answer")
            cluster.primaries[2].kill()
            with pytest.raises(errors.StoreUnavailable):
                await driver.ping()
            first = cluster.primaries[0]
            servers.wait_for(lambda: first.info()["cluster_slots_fail"] != "0", "it to be noticed")
            assert first.info()["cluster_state"] == "ok"
            assert not await _answers(driver)


async def test_cluster_that_lacks_a_slot_does_not_answer_though_all_primaries_do() -> None:
    with redis_cluster() as cluster:
        async with _started(cluster.uri) as driver:
            await until(partial(_answers, driver), "the cluster to answer")
            for node in cluster.primaries:
                node.command("CLUSTER", "DELSLOTS", 1)
            servers.wait_for(
                lambda: cluster.primaries[0].info()["cluster_state"] == "fail", "it to fail"
            )
            assert not await _answers(driver)
