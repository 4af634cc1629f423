# SPDX-License-Identifier: Apache-2.0
"""The Python client with tokens of Keystone."""

from __future__ import annotations

import asyncio

import pytest
from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session
from zaqar_redis_client import AsyncClient, Client, Refused
from zaqar_redis_client.keystone import Keystone

from tests.support.keystone import PASSWORD, USERS, RunningKeystone
from tests.support.servers import RunningService


def _password(keystone: RunningKeystone, password: str = PASSWORD) -> Password:
    return Password(
        auth_url=keystone.url,
        username="member",
        password=password,
        project_name=USERS["member"][0],
        user_domain_id="default",
        project_domain_id="default",
    )


async def test_client_gets_tokens_by_itself_and_another_one_for_one_that_was_revoked(
    beside: RunningService, keystone: RunningKeystone, queue: str
) -> None:
    plugin = _password(keystone)
    session = Session(auth=plugin)
    async with AsyncClient(beside.url, credential=Keystone(session)) as client:
        await client.queue(queue).post("before")
        first = session.get_token()
        assert first
        # The service knows for a while whose a token is; of another one it asks Keystone.
        plugin.auth_ref = None
        revoked = session.get_token()
        assert revoked
        keystone.revoke(revoked)
        async with AsyncClient(beside.url, credential=Keystone(session)) as other:
            assert [each.body async for each in other.queue(queue).messages()] == ["before"]
        assert session.get_token() not in (first, revoked)


async def test_clients_of_two_event_loops_share_a_credential(
    beside: RunningService, keystone: RunningKeystone, queue: str
) -> None:
    credential = Keystone(_password(keystone))

    def post() -> None:
        with Client(beside.url, credential=credential) as client:
            client.queue(queue).post("thread")

    async with AsyncClient(beside.url, credential=credential) as client:
        await client.queue(queue).create()
        reads = (client.queue(queue).stats() for _ in range(10))
        await asyncio.gather(*reads, *(asyncio.to_thread(post) for _ in range(5)))
        assert len([each async for each in client.queue(queue).messages()]) == 5


async def test_refusal_of_keystone_is_one_of_the_client(
    beside: RunningService, keystone: RunningKeystone
) -> None:
    wrong = Keystone(_password(keystone, "wrong"))
    async with AsyncClient(beside.url, credential=wrong) as client:
        with pytest.raises(Refused, match="Keystone") as refused:
            await client.queue("q").stats()
    assert refused.value.status == 401
