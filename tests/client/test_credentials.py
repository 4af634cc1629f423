# SPDX-License-Identifier: Apache-2.0
"""What the client proves its right with."""

from __future__ import annotations

import pytest
from zaqar_redis_client import Client, Refused

from tests.auth.key_clients import OPTIONS, key_operator
from tests.support import servers
from tests.support.backends import Backend


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
