# SPDX-License-Identifier: Apache-2.0
"""Sockets of the WebSocket API count for their project's quota, once it is known."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.support import servers
from tests.support.backends import Backend
from tests.websocket.peers import api_peer


@pytest.fixture(scope="module")
def one_socket(redis_server: Backend) -> Iterator[servers.RunningService]:
    """A service that allows each project one socket."""
    with servers.service(redis_server.uri, options={"quota": {"sockets": 1}}) as running:
        yield running


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
