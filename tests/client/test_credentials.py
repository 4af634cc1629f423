# SPDX-License-Identifier: Apache-2.0
"""What the client proves its right with."""

from __future__ import annotations

import pytest
from keystoneauth1.identity import Password
from zaqar_redis_client import Client, Refused, Unavailable
from zaqar_redis_client.keystone import Keystone

from tests.auth.key_clients import OPTIONS, key_operator
from tests.support import servers
from tests.support.backends import Backend
from tests.support.http_handlers import QuietHandler, local_server


def test_access_key_is_the_token_of_a_client(redis_server: Backend, project: str) -> None:
    with key_operator(redis_server.uri) as operator:
        key = operator.create("--read-only", project=project)
    with servers.service(redis_server.uri, options=OPTIONS) as running:
        with Client(running.url, credential=f"{key.id}.{key.secret}") as client:
            assert list(client.queue("q").messages()) == []
            with pytest.raises(Refused) as refused:
                client.queue("q").post(1)
            assert refused.value.status == 403
        with Client(running.url, credential=f"{key.id}.wrong") as client:
            with pytest.raises(Refused) as refused:
                client.queue("q").stats()
            assert refused.value.status == 401


class _Overloaded(QuietHandler):
    def do_GET(self) -> None:
        self.answer(503)

    do_POST = do_GET


def test_keystone_that_is_away_or_overloaded_makes_the_service_unavailable(project: str) -> None:
    with servers.http_server(local_server(_Overloaded)) as keystone:
        address = f"http://127.0.0.1:{keystone.server_port}"
        for version in ("", "/v3"):
            auth = Password(f"{address}{version}", username="ann", password="secret")
            credential = Keystone(auth)
            with (
                Client(address, credential=credential, retry_for=0) as client,
                pytest.raises(Unavailable, match="Keystone"),
            ):
                client.queue("q").post(1)
