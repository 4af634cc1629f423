# SPDX-License-Identifier: Apache-2.0
"""Webhooks with a token of the user who has subscribed, by trusts of a real Keystone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.keystone import RunningKeystone
from zaqar_redis import conf, errors
from zaqar_redis.auth import keystone as keystone_strategy
from zaqar_redis.auth.keystone_trusts import KeystoneTrusts
from zaqar_redis.notify.trusts import TrustService

TTL = 3600


def _client(folder: Path, keystone: RunningKeystone, **trustee: object) -> KeystoneTrusts | None:
    """*trustee*: other options than the usual ones; None leaves one out."""
    usual = keystone.service_options()
    usual.pop("www_authenticate_uri")
    groups = {
        "auth": {"strategy": "keystone"},
        "keystone_authtoken": keystone.service_options(),
        "trustee": usual | trustee,
    }
    lines = [
        line
        for group, options in groups.items()
        for line in (f"[{group}]", *(f"{n} = {v}" for n, v in options.items() if v is not None))
    ]
    path = folder / "zaqar_redis.conf"
    path.write_text("\n".join(lines))
    return keystone_strategy.trusts(conf.load([], [str(path)]))


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


def _known(keystone: RunningKeystone, token: str) -> dict[str, Any]:
    """Returns what Keystone knows of a token."""
    admin = keystone.token("admin", "admin")
    headers = {"X-Auth-Token": admin, "X-Subject-Token": token}
    response = httpx.get(f"{keystone.url}/auth/tokens", headers=headers, timeout=30)
    response.raise_for_status()
    found: dict[str, Any] = response.json()["token"]
    return found


def _trusts(keystone: RunningKeystone, user: str) -> list[dict[str, Any]]:
    path = f"/OS-TRUST/trusts?trustor_user_id={keystone.users[user]}"
    found: list[dict[str, Any]] = keystone.request("GET", path).json()["trusts"]
    return found


def test_trust_gives_a_token_of_its_user_until_it_is_deleted(
    client: KeystoneTrusts, keystone: RunningKeystone
) -> None:
    async def check(service: TrustService) -> None:
        blue = keystone.projects["blue"]
        trust = await service.grant(keystone.token("member"), blue, TTL, None)
        token = await service.token(trust)
        known = _known(keystone, token)
        assert known["user"]["id"] == keystone.users["member"]
        assert known["project"]["id"] == blue
        assert {role["name"] for role in known["roles"]} == {"member", "reader"}
        assert known["OS-TRUST:trust"]["id"] == trust
        (made,) = (each for each in _trusts(keystone, "member") if each["id"] == trust)
        assert made["trustee_user_id"] == keystone.users["zaqar"]
        assert made["expires_at"] is not None

        await service.delete(trust)
        assert trust not in [each["id"] for each in _trusts(keystone, "member")]
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
        before = len(_trusts(keystone, "stranger"))
        with pytest.raises(errors.Forbidden, match=keystone.projects["blue"]):
            await service.grant(keystone.token("stranger"), keystone.projects["blue"], TTL, None)
        assert len(_trusts(keystone, "stranger")) == before

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


def test_without_a_user_to_trust_it_says_why(tmp_path: Path, keystone: RunningKeystone) -> None:
    client = _client(tmp_path, keystone, auth_type=None)
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
