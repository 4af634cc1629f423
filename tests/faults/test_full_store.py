# SPDX-License-Identifier: Apache-2.0
"""A service whose Redis is full: what clients of each API get."""

from __future__ import annotations

import uuid
from typing import Any

import httpx

from tests.support import servers
from tests.websocket.peers import api_peer

#: Bytes in Redis: else buffers of connections would be more than what is left.
_BALLAST = 16 * 1024 * 1024


def test_full_store_answers_507_and_claims_and_deletions_go_on() -> None:
    with (
        servers.redis_server() as redis,
        redis.client() as admin,
        servers.service(redis.uri, options={"channels": {"api_insecure": True}}) as service,
        httpx.Client(
            base_url=f"{service.url}/v2/queues/q",
            headers={"Client-ID": str(uuid.uuid4()), "X-Project-ID": "p"},
            timeout=60,
        ) as http,
        api_peer(service, "p") as peer,
    ):
        message = {"messages": [{"body": "a", "ttl": 300}]}
        for _ in range(2):
            assert http.post("/messages", json=message).status_code == 201
        admin.setrange("ballast", _BALLAST, b"-")
        admin.config_set("maxmemory", round(admin.info("memory")["used_memory"] / 0.97))
        servers.wait_for(
            lambda: http.post("/messages", json=message).status_code == 507, "the store to be full"
        )
        refused = http.post("/messages", json=message)
        assert refused.json()["title"] == "Insufficient storage"
        assert "is full: it takes nothing new until" in refused.json()["description"]
        assert refused.headers["Retry-After"] == "10"
        answer = peer.ask("message_post", queue_name="q", messages=[{"body": "b", "ttl": 300}])
        assert answer.status == 507
        assert "is full" in answer.body["error"]

        def published() -> Any:
            document = {"channel": "c", "data": 1, "history_size": 1}
            answer = httpx.post(f"{service.url}/api/publish", json=document, timeout=60)
            assert answer.status_code == 200
            return answer.json()

        # Channels have a connection of their own, which learns of it by itself.
        servers.wait_for(lambda: "error" in published(), "publications to be refused")
        assert published()["error"]["code"] == 100
        claimed = http.post("/claims", json={"ttl": 300, "grace": 300})
        assert claimed.status_code == 201
        for each in claimed.json()["messages"]:
            path = each["href"].removeprefix("/v2/queues/q")
            assert http.delete(path).status_code == 204
        admin.config_set("maxmemory", 0)
        servers.wait_for(
            lambda: http.post("/messages", json=message).status_code == 201, "memory to be free"
        )
