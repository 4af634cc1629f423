# SPDX-License-Identifier: Apache-2.0
"""Sockets of the WebSocket API count for their project's quota, once it is known."""

from __future__ import annotations

import uuid

from tests.support import fixtures, servers
from tests.websocket.peers import api_peer

#: A service that allows each project one socket.
one_socket = fixtures.service({"quota": {"sockets": 1}})


def test_socket_beyond_the_quota_is_refused_until_another_one_ends(
    one_socket: servers.RunningService, project: str
) -> None:
    with api_peer(one_socket, project) as second:
        with api_peer(one_socket, project) as first:
            assert [first.ask("authenticate").status for _ in range(2)] == [200, 200]
            refused = second.ask("authenticate")
            assert refused.status == 403
            assert "sockets" in refused.body["error"]
        servers.wait_for(lambda: second.ask("authenticate").status == 200, "the socket to end")


def test_socket_that_authenticates_for_another_project_counts_for_that(
    one_socket: servers.RunningService, project: str
) -> None:
    other = {"X-Project-ID": str(uuid.uuid4())}
    with api_peer(one_socket, project) as first, api_peer(one_socket, project) as second:
        assert first.ask("authenticate").status == 200
        assert second.ask("authenticate", other).status == 200
        assert first.ask("authenticate", other).status == 403  # and is what it was
        assert second.ask("authenticate").status == 403
        assert first.ask("authenticate").status == 200


def test_socket_that_does_not_authenticate_counts_with_its_first_request(
    one_socket: servers.RunningService, project: str
) -> None:
    with api_peer(one_socket, project) as first, api_peer(one_socket, project) as second:
        assert first.ask("queue_list").status == 200
        assert second.ask("queue_list").status == 403
