# SPDX-License-Identifier: Apache-2.0
"""Webhooks with a token of the user who has subscribed, by trusts of a real Keystone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.keystone.receivers import TokenReceiver
from tests.support import servers
from tests.support.keystone import RunningKeystone
from tests.support.targets import target_context
from zaqar_redis import conf, errors
from zaqar_redis.auth import keystone as keystone_strategy
from zaqar_redis.auth.keystone_trusts import KeystoneTrusts
from zaqar_redis.benchmarks.servers import config_text
from zaqar_redis.benchmarks.tcp_proxy import tcp_proxy
from zaqar_redis.notify.settings import HttpSettings
from zaqar_redis.notify.target import Delivery, Outcome
from zaqar_redis.notify.targets.trust import TrustTarget, create
from zaqar_redis.notify.trusts import TrustService
from zaqar_redis.records import Subscription
from zaqar_redis.service.subscription_options import SubscriptionOptions

TTL = 3600


def _client(folder: Path, keystone: RunningKeystone, **options: object) -> KeystoneTrusts | None:
    """*options*: of the user that is trusted, instead of the usual ones; None leaves one out."""
    trustee = keystone.trustee_options() | options
    text = config_text(
        {
            "auth": {"strategy": "keystone"},
            "keystone_authtoken": keystone.service_options(),
            "trustee": {name: value for name, value in trustee.items() if value is not None},
        }
    )
    return keystone_strategy.trusts(conf.load([], [servers.config_file(folder, text)]))


@pytest.fixture(scope="module")
def client(keystone: RunningKeystone, tmp_path_factory: pytest.TempPathFactory) -> KeystoneTrusts:
    found = _client(tmp_path_factory.mktemp("trusts"), keystone)
    assert found is not None
    return found


@contextlib.asynccontextmanager
async def _service(client: KeystoneTrusts | None) -> AsyncIterator[TrustService]:
    service = TrustService(client)
    try:
        yield service
    finally:
        await service.close()


def _run(
    client: KeystoneTrusts | None, check: Callable[[TrustService], Coroutine[Any, Any, None]]
) -> None:
    async def run() -> None:
        async with _service(client) as service:
            await check(service)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_trust_gives_a_token_of_its_user_until_it_is_deleted(
    client: KeystoneTrusts, keystone: RunningKeystone
) -> None:
    async def check(service: TrustService) -> None:
        blue = keystone.projects["blue"]
        trust = await service.grant(keystone.token("member"), blue, TTL, None)
        token = await service.token(trust)
        known = keystone.token_document(token)
        assert known["user"]["id"] == keystone.users["member"]
        assert known["project"]["id"] == blue
        assert {role["name"] for role in known["roles"]} == {"member", "reader"}
        assert known["OS-TRUST:trust"]["id"] == trust
        (made,) = (each for each in keystone.trusts("member") if each["id"] == trust)
        assert made["trustee_user_id"] == keystone.users["zaqar"]
        assert made["expires_at"] is not None

        await service.delete(trust)
        assert trust not in [each["id"] for each in keystone.trusts("member")]
        with pytest.raises(errors.Forbidden, match=trust):
            await service.token(trust)

    _run(client, check)


def test_tokens_are_asked_for_once(client: KeystoneTrusts, keystone: RunningKeystone) -> None:
    async def check(service: TrustService) -> None:
        blue = keystone.projects["blue"]
        trust = await service.grant(keystone.token("member"), blue, TTL, None)
        tokens = await asyncio.gather(*(service.token(trust) for _ in range(20)))
        assert {*tokens, await service.token(trust)} == {tokens[0]}

    _run(client, check)


def test_token_that_ends_soon_is_not_kept(
    client: KeystoneTrusts, keystone: RunningKeystone
) -> None:
    async def check(service: TrustService) -> None:
        blue = keystone.projects["blue"]
        trust = await service.grant(keystone.token("member"), blue, 50, None)
        await service.token(trust)
        assert not service.has_token(trust)

    _run(client, check)


def test_trust_of_another_user_is_refused(
    client: KeystoneTrusts, keystone: RunningKeystone
) -> None:
    async def check(service: TrustService) -> None:
        blue = keystone.projects["blue"]
        member = keystone.token("member")
        trust = await service.grant(member, blue, TTL, None)
        assert await service.grant(member, blue, TTL, trust) == trust
        for thief in ("reader", "operator", "zaqar"):
            with pytest.raises(errors.Forbidden):
                await service.grant(keystone.token(thief), blue, TTL, trust)
        for bad in ("", "no/such", "../tokens", "0" * 32):
            with pytest.raises(errors.Forbidden):
                await service.grant(member, blue, TTL, bad)

    _run(client, check)


def test_token_of_another_project_gives_no_trust(
    client: KeystoneTrusts, keystone: RunningKeystone
) -> None:
    async def check(service: TrustService) -> None:
        before = len(keystone.trusts("stranger"))
        with pytest.raises(errors.Forbidden, match=keystone.projects["blue"]):
            await service.grant(keystone.token("stranger"), keystone.projects["blue"], TTL, None)
        assert len(keystone.trusts("stranger")) == before

    _run(client, check)


def test_token_of_a_trust_gives_no_further_trust(
    client: KeystoneTrusts, keystone: RunningKeystone
) -> None:
    async def check(service: TrustService) -> None:
        blue = keystone.projects["blue"]
        trust = await service.grant(keystone.token("member"), blue, TTL, None)
        with pytest.raises(errors.Forbidden, match="Keystone refuses"):
            await service.grant(await service.token(trust), blue, TTL, None)

    _run(client, check)


def test_token_that_keystone_does_not_know_gives_no_trust(
    client: KeystoneTrusts, keystone: RunningKeystone
) -> None:
    async def check(service: TrustService) -> None:
        with pytest.raises(errors.Forbidden, match="Keystone refuses"):
            await service.grant("unknown", keystone.projects["blue"], TTL, None)

    _run(client, check)


def test_connection_that_ends_with_the_request_is_made_again(
    tmp_path: Path, keystone: RunningKeystone
) -> None:
    async def check() -> None:
        port = urlsplit(keystone.url).port
        assert port
        async with tcp_proxy(port) as (proxy, own):
            client = _client(tmp_path, keystone, auth_url=f"http://127.0.0.1:{own}/v3")
            async with _service(client) as service:
                proxy.drop(1)
                blue = keystone.projects["blue"]
                trust = await service.grant(keystone.token("member"), blue, TTL, None)
                assert trust in {each["id"] for each in keystone.trusts("member")}

    asyncio.run(check())


def test_without_a_user_to_trust_it_says_why(tmp_path: Path, keystone: RunningKeystone) -> None:
    client = _client(tmp_path, keystone, **dict.fromkeys(keystone.trustee_options()))
    assert client is None

    async def check(service: TrustService) -> None:
        with pytest.raises(errors.BadRequest, match=r"\[trustee\]"):
            await service.grant(keystone.token("member"), keystone.projects["blue"], TTL, None)

    _run(client, check)


def test_request_without_a_token_of_keystone_says_why(client: KeystoneTrusts) -> None:
    async def check(service: TrustService) -> None:
        with pytest.raises(errors.BadRequest, match="token of Keystone"):
            await service.grant(None, "blue", TTL, None)

    _run(client, check)


def test_wrong_password_of_the_service_is_an_outage(
    client: KeystoneTrusts, tmp_path: Path, keystone: RunningKeystone
) -> None:
    blue = keystone.projects["blue"]
    trust = client.create(keystone.token("member"), blue, TTL)
    locked_out = _client(tmp_path, keystone, password="wrong")
    assert locked_out is not None
    with pytest.raises(errors.Unavailable):
        locked_out.token(trust)


def test_keystone_that_is_away_is_an_outage(tmp_path: Path, keystone: RunningKeystone) -> None:
    client = _client(tmp_path, keystone, auth_url="http://127.0.0.1:1/v3")

    async def check(service: TrustService) -> None:
        with pytest.raises(errors.Unavailable):
            await service.grant("a-token", "blue", TTL, None)
        with pytest.raises(errors.Unavailable):
            await service.token("0" * 32)
        await service.delete("0" * 32)

    _run(client, check)


@pytest.mark.parametrize(
    "wrong", [{"auth_type": "nothing"}, {"auth_url": None}, {"auth_section": "keystone_authtoken"}]
)
def test_bad_options_are_refused_at_the_start(
    tmp_path: Path, keystone: RunningKeystone, wrong: dict[str, object]
) -> None:
    with pytest.raises(errors.BadConfiguration, match=r"\[trustee\]"):
        _client(tmp_path, keystone, **wrong)


def _delivery(uri: str, raw: dict[str, Any]) -> Delivery:
    subscription = Subscription("subscription", "orders", uri, TTL, 0, raw)
    options = SubscriptionOptions(raw=raw)
    notice = b'{"Message_Type": "Test"}'
    return Delivery("blue", "orders", subscription, options, notice=notice, id="subscription/test")


@contextlib.asynccontextmanager
async def _target(service: TrustService) -> AsyncIterator[TrustTarget]:
    target = create(
        msgspec.structs.replace(
            target_context(), http=HttpSettings(("127.0.0.0/8",)), trusts=service
        )
    )
    try:
        yield target
    finally:
        await target.close()


def test_webhook_has_a_token_of_its_owner(
    client: KeystoneTrusts, keystone: RunningKeystone, receiver: TokenReceiver
) -> None:
    async def check(service: TrustService) -> None:
        trust = await service.grant(keystone.token("member"), keystone.projects["blue"], TTL, None)
        async with _target(service) as target:
            delivery = _delivery(f"trust+{receiver.uri}", {"trust_id": trust})
            target.check(delivery.subscription.subscriber, delivery.options)
            assert (await target.deliver(delivery)).outcome is Outcome.DELIVERED
        ((path, token),) = receiver.received
        assert path == "/hook"
        assert keystone.token_document(token)["user"]["id"] == keystone.users["member"]

    _run(client, check)


def test_token_that_was_revoked_is_replaced_once(
    client: KeystoneTrusts, keystone: RunningKeystone, receiver: TokenReceiver
) -> None:
    async def check(service: TrustService) -> None:
        trust = await service.grant(keystone.token("member"), keystone.projects["blue"], TTL, None)
        revoked = await service.token(trust)
        keystone.revoke(revoked)
        receiver.statuses = [401, 204, 401, 401]
        async with _target(service) as target:
            delivery = _delivery(f"trust+{receiver.uri}", {"trust_id": trust})
            assert (await target.deliver(delivery)).outcome is Outcome.DELIVERED
            first, second = (token for _, token in receiver.received)
            assert first == revoked
            assert keystone.token_document(second)["OS-TRUST:trust"]["id"] == trust
            assert (await target.deliver(delivery)).status == 401
        assert len(receiver.received) == 4

    _run(client, check)


def test_webhook_without_its_trust_is_refused_and_says_why(
    client: KeystoneTrusts, receiver: TokenReceiver
) -> None:
    async def check(service: TrustService) -> None:
        async with _target(service) as target:
            for raw in ({}, {"trust_id": 1}, {"trust_id": 32 * "0"}, {"trust_id": "a/b"}):
                result = await target.deliver(_delivery(f"trust+{receiver.uri}", raw))
                assert result.outcome is Outcome.REFUSED
                assert "trust" in result.error
        assert receiver.received == []

    _run(client, check)


def test_webhook_waits_while_keystone_is_away(
    tmp_path: Path, keystone: RunningKeystone, receiver: TokenReceiver
) -> None:
    client = _client(tmp_path, keystone, auth_url="http://127.0.0.1:1/v3")

    async def check(service: TrustService) -> None:
        async with _target(service) as target:
            delivery = _delivery(f"trust+{receiver.uri}", {"trust_id": 32 * "0"})
            assert (await target.deliver(delivery)).outcome is Outcome.RETRY

    _run(client, check)


def test_subscriber_that_could_get_nothing_is_refused(client: KeystoneTrusts) -> None:
    async def check(service: TrustService) -> None:
        async with _target(service) as target:
            with pytest.raises(errors.BadRequest, match="trust_id"):
                target.check("trust+http://a", SubscriptionOptions(raw={"trust_id": 1}))
            with pytest.raises(errors.BadRequest, match="subscriber"):
                target.check("trust+ftp://a", SubscriptionOptions())
        async with _service(None) as without, _target(without) as target:
            with pytest.raises(errors.BadRequest, match="strategy keystone"):
                target.check("trust+http://a", SubscriptionOptions())

    _run(client, check)
