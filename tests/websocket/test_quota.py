# SPDX-License-Identifier: Apache-2.0
"""Sockets of the WebSocket API count for their project's quota, once it is known."""

from __future__ import annotations

import uuid

from tests.support import servers
from tests.websocket.peers import api_peer


def test_socket_beyond_the_quota_is_refused_until_another_one_ends(
    redis_server: servers.RedisServer, project: str
) -> None:
    with (
        servers.service(redis_server.uri, options={"quota": {"sockets": 1}}) as running,
        api_peer(running, project) as second,
    ):
        with api_peer(running, project) as first:
            assert [first.ask("authenticate").status for _ in range(2)] == [200, 200]
            refused = second.ask("authenticate")
            assert refused.status == 403
            assert "sockets" in refused.body["error"]
        servers.wait_for(lambda: second.ask("authenticate").status == 200, "the socket to end")


def test_socket_that_authenticates_for_another_project_counts_for_that(
    redis_server: servers.RedisServer, project: str
) -> None:
    other = {"X-Project-ID": str(uuid.uuid4())}
    with (
        servers.service(redis_server.uri, options={"quota": {"sockets": 1}}) as running,
        api_peer(running, project) as first,
        api_peer(running, project) as second,
    ):
        assert first.ask("authenticate").status == 200
        assert second.ask("authenticate", other).status == 200
        assert first.ask("authenticate", other).status == 403  # and is what it was
        assert second.ask("authenticate").status == 403
        assert first.ask("authenticate").status == 200


def test_socket_that_does_not_authenticate_counts_with_its_first_request(
    redis_server: servers.RedisServer, project: str
) -> None:
    with (
        servers.service(redis_server.uri, options={"quota": {"sockets": 1}}) as running,
        api_peer(running, project) as first,
        api_peer(running, project) as second,
    ):
        assert first.ask("queue_list").status == 200
        assert second.ask("queue_list").status == 403
