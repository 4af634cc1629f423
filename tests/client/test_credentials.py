# SPDX-License-Identifier: Apache-2.0
"""What the client proves its right with."""

from __future__ import annotations

import asyncio
import itertools
import threading

import pytest
from keystoneauth1.identity import Password
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.session import Session
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


class _Numbered(BaseAuthPlugin):
    """Has another token after each invalidation, which waits until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)
        self._token = ""
        self.begun, self.may_end = threading.Event(), threading.Event()

    def get_token(self, session: Session, **_: object) -> str:
        self._token = self._token or str(next(self._numbers))
        return self._token

    def invalidate(self) -> bool:
        self.begun.set()
        self.may_end.wait()
        self._token = ""
        return True


async def test_token_that_others_got_while_it_was_renewed_is_not_kept() -> None:
    plugin = _Numbered()
    credential = Keystone(plugin)
    assert await credential.headers() == {"X-Auth-Token": "1"}
    renewal = asyncio.create_task(credential.renew())
    try:
        await asyncio.to_thread(plugin.begun.wait)
        assert await credential.headers() == {"X-Auth-Token": "1"}
    finally:
        plugin.may_end.set()
    assert await renewal
    assert await credential.headers() == {"X-Auth-Token": "2"}
