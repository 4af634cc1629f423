# SPDX-License-Identifier: Apache-2.0
"""What the console's endpoints show to whom."""

from __future__ import annotations

import signal
from typing import Any

import httpx
import pytest

from tests.auth.conftest import API_KEY
from tests.auth.test_server_api import ROLES, bearer
from tests.support import openid, servers
from tests.support.openid import OpenIdProvider
from tests.support.stores import PATIENT_OPTIONS
from zaqar_redis.pool_records import Pool
from zaqar_redis.storage import pools


def overview(service: servers.RunningService, **headers: str) -> Any:
    answer = httpx.get(f"{service.url}/console/overview", headers=headers, timeout=30)
    assert answer.status_code == 200
    return answer.json()


@pytest.mark.parametrize("role", ROLES)
def test_only_administrators_see_stores_and_nodes(
    jwt_service: servers.RunningService, provider: OpenIdProvider, role: str, project: str
) -> None:
    found = overview(jwt_service, Authorization=bearer(provider, role, project=project))
    assert (found["project"], found["totals"]["queues"]) == (project, 0)
    about_stores = [each for each in found["alarms"] if each["subject"].startswith("store")]
    if role == "admin":
        assert [store["kind"] for store in found["stores"]] == ["queues", "channels"]
        assert found["nodes"]  # those of other services over this Redis, too
        assert about_stores  # it persists nothing
    else:
        assert (found["stores"], found["nodes"], about_stores) == (None, None, [])


def test_holder_of_the_key_sees_stores_and_nodes(
    jwt_service: servers.RunningService, project: str
) -> None:
    found = overview(jwt_service, **{"X-API-Key": API_KEY, "X-Project-ID": project})
    assert found["project"] == project
    assert found["nodes"]


async def test_member_sees_that_a_store_is_away_and_that_its_queues_were_not_read(
    provider: OpenIdProvider, project: str
) -> None:
    options = openid.options(provider) | {"channels": {"api_key": API_KEY}}
    with servers.redis_server() as redis, servers.redis_server() as lost:
        driver = pools.create(redis.uri, redis.uri, PATIENT_OPTIONS)
        await driver.start()
        await driver.queues.create(project, "near", {})
        await driver.control.pools.put(
            Pool(name="p1", uri=lost.uri, weight=100), canonical=lost.uri
        )
        await driver.queues.create(project, "far", {})
        await driver.close()
        lost.signal(signal.SIGKILL)
        with servers.service(redis.uri, options=options) as service:
            member = bearer(provider, "member", project=project)

            def is_told() -> bool:
                found = overview(service, Authorization=member)
                assert not found["complete"]
                is_alarm = any(each["subject"] == "store p1" for each in found["alarms"])
                return is_alarm and found["totals"]["queues"] == 1

            servers.wait_for(is_told, "the alarm")
            other = bearer(provider, "member", project=f"{project}-other")
            servers.wait_for(
                lambda: overview(service, Authorization=other)["complete"], "the other project"
            )
            assert overview(service, Authorization=other)["alarms"] == []
