# SPDX-License-Identifier: Apache-2.0
"""What the console's endpoints show to whom."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.auth.conftest import API_KEY
from tests.auth.test_server_api import ROLES, bearer
from tests.support import servers
from tests.support.openid import OpenIdProvider


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
