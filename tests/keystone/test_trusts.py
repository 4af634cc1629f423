# SPDX-License-Identifier: Apache-2.0
"""Webhooks with a token of the user who has subscribed, by trusts of a real Keystone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.keystone.receivers import TokenReceiver
from tests.support import servers
from tests.support.keystone import RunningKeystone
from tests.support.targets import target_context
from tests.support.tcp_proxy import tcp_proxy
from zaqar_redis import conf, errors
from zaqar_redis.auth import keystone as keystone_strategy
from zaqar_redis.auth.keystone_trusts import KeystoneTrusts
from zaqar_redis.notify.settings import HttpSettings
from zaqar_redis.notify.target import Delivery, Outcome
from zaqar_redis.notify.targets.trust import TrustTarget, create
from zaqar_redis.notify.trusts import TrustService
from zaqar_redis.records import Subscription
from zaqar_redis.service.subscription_options import SubscriptionOptions

T = TypeVar("T")
TTL = 3600


def _client(folder: Path, keystone: RunningKeystone, **options: object) -> KeystoneTrusts | None:
    """*options*: of the user that is trusted, instead of the usual ones; None leaves one out."""
    trustee = keystone.trustee_options() | options
    text = servers.config_text(
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


class BlockingTrusts:
    """A trust service whose calls block until they are done."""

    def __init__(
        self, service: TrustService, keystone: RunningKeystone, runner: asyncio.Runner
    ) -> None:
        self.service = service
        self._keystone = keystone
        self._runner = runner

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(asyncio.wait_for(call, 60))

    def grant(self, user: str = "member", *, trust: str | None = None, ttl: int = TTL) -> str:
        return self.grant_with(self._keystone.token(user), trust=trust, ttl=ttl)

    def grant_with(self, token: str | None, *, trust: str | None = None, ttl: int = TTL) -> str:
        return self.run(self.service.grant(token, self._keystone.projects["blue"], ttl, trust))

    def token(self, trust: str) -> str:
        return self.run(self.service.token(trust))

    @contextlib.contextmanager
    def target(self) -> Iterator[TrustTarget]:
        http = HttpSettings(("127.0.0.0/8",))

        async def made() -> TrustTarget:
            return create(msgspec.structs.replace(target_context(), http=http, trusts=self.service))

        target = self.run(made())
        try:
            yield target
        finally:
            self.run(target.close())


@contextlib.contextmanager
def _opened(client: KeystoneTrusts | None, keystone: RunningKeystone) -> Iterator[BlockingTrusts]:
    with asyncio.Runner() as runner:
        service = TrustService(client)
        try:
            yield BlockingTrusts(service, keystone, runner)
        finally:
            runner.run(service.close())


@pytest.fixture
def trusts(client: KeystoneTrusts, keystone: RunningKeystone) -> Iterator[BlockingTrusts]:
    with _opened(client, keystone) as trusts:
        yield trusts


@pytest.fixture
def unreachable(tmp_path: Path, keystone: RunningKeystone) -> Iterator[BlockingTrusts]:
    """A trust service whose Keystone is away."""
    client = _client(tmp_path, keystone, auth_url="http://127.0.0.1:1/v3")
    with _opened(client, keystone) as trusts:
        yield trusts


def test_trust_gives_a_token_of_its_user_until_it_is_deleted(
    trusts: BlockingTrusts, keystone: RunningKeystone
) -> None:
    trust = trusts.grant()
    known = keystone.token_document(trusts.token(trust))
    assert known["user"]["id"] == keystone.users["member"]
    assert known["project"]["id"] == keystone.projects["blue"]
    assert {role["name"] for role in known["roles"]} == {"member", "reader"}
    assert known["OS-TRUST:trust"]["id"] == trust
    (made,) = (each for each in keystone.trusts("member") if each["id"] == trust)
    assert made["trustee_user_id"] == keystone.users["zaqar"]
    assert made["expires_at"] is not None

    trusts.run(trusts.service.delete(trust))
    assert trust not in [each["id"] for each in keystone.trusts("member")]
    with pytest.raises(errors.Forbidden, match=trust):
        trusts.token(trust)


def test_tokens_are_asked_for_once(trusts: BlockingTrusts) -> None:
    trust = trusts.grant()

    async def tokens() -> list[str]:
        return await asyncio.gather(*(trusts.service.token(trust) for _ in range(20)))

    first, *others = trusts.run(tokens())
    assert {*others, trusts.token(trust)} == {first}


def test_token_that_ends_soon_is_not_kept(trusts: BlockingTrusts) -> None:
    trust = trusts.grant(ttl=50)
    trusts.token(trust)
    assert not trusts.service.has_token(trust)


def test_trust_of_another_user_is_refused(trusts: BlockingTrusts) -> None:
    trust = trusts.grant()
    assert trusts.grant(trust=trust) == trust
    for thief in ("reader", "operator", "zaqar"):
        with pytest.raises(errors.Forbidden):
            trusts.grant(thief, trust=trust)
    for bad in ("", "no/such", "../tokens", "0" * 32):
        with pytest.raises(errors.Forbidden):
            trusts.grant(trust=bad)


def test_token_of_another_project_gives_no_trust(
    trusts: BlockingTrusts, keystone: RunningKeystone
) -> None:
    before = len(keystone.trusts("stranger"))
    with pytest.raises(errors.Forbidden, match=keystone.projects["blue"]):
        trusts.grant("stranger")
    assert len(keystone.trusts("stranger")) == before


def test_token_of_a_trust_gives_no_further_trust(trusts: BlockingTrusts) -> None:
    token = trusts.token(trusts.grant())
    with pytest.raises(errors.Forbidden, match="Keystone refuses"):
        trusts.grant_with(token)


def test_token_that_keystone_does_not_know_gives_no_trust(trusts: BlockingTrusts) -> None:
    with pytest.raises(errors.Forbidden, match="Keystone refuses"):
        trusts.grant_with("unknown")


def test_connection_that_ends_with_the_request_is_made_again(
    tmp_path: Path, keystone: RunningKeystone
) -> None:
    async def granted() -> str:
        port = urlsplit(keystone.url).port
        assert port
        async with tcp_proxy(port) as (proxy, own):
            service = TrustService(
                _client(tmp_path, keystone, auth_url=f"http://127.0.0.1:{own}/v3")
            )
            proxy.drop(1)
            blue = keystone.projects["blue"]
            trust = await service.grant(keystone.token("member"), blue, TTL, None)
            await service.close()
            return trust

    assert asyncio.run(granted()) in {each["id"] for each in keystone.trusts("member")}


def test_without_a_user_to_trust_it_says_why(tmp_path: Path, keystone: RunningKeystone) -> None:
    client = _client(tmp_path, keystone, **dict.fromkeys(keystone.trustee_options()))
    assert client is None
    with (
        _opened(client, keystone) as trusts,
        pytest.raises(errors.BadRequest, match=r"\[trustee\]"),
    ):
        trusts.grant()


def test_request_without_a_token_of_keystone_says_why(trusts: BlockingTrusts) -> None:
    with pytest.raises(errors.BadRequest, match="token of Keystone"):
        trusts.grant_with(None)


def test_wrong_password_of_the_service_is_an_outage(
    trusts: BlockingTrusts, tmp_path: Path, keystone: RunningKeystone
) -> None:
    trust = trusts.grant()
    locked_out = _client(tmp_path, keystone, password="wrong")
    assert locked_out is not None
    with pytest.raises(errors.Unavailable):
        locked_out.token(trust)


def test_keystone_that_is_away_is_an_outage(unreachable: BlockingTrusts) -> None:
    with pytest.raises(errors.Unavailable):
        unreachable.grant_with("a-token")
    with pytest.raises(errors.Unavailable):
        unreachable.token("0" * 32)
    unreachable.run(unreachable.service.delete("0" * 32))


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


def test_webhook_has_a_token_of_its_owner(
    trusts: BlockingTrusts, keystone: RunningKeystone, receiver: TokenReceiver
) -> None:
    delivery = _delivery(f"trust+{receiver.uri}", {"trust_id": trusts.grant()})
    with trusts.target() as target:
        target.check(delivery.subscription.subscriber, delivery.options)
        assert trusts.run(target.deliver(delivery)).outcome is Outcome.DELIVERED
    ((path, token),) = receiver.received
    assert path == "/hook"
    assert keystone.token_document(token)["user"]["id"] == keystone.users["member"]


def test_token_that_was_revoked_is_replaced_once(
    trusts: BlockingTrusts, keystone: RunningKeystone, receiver: TokenReceiver
) -> None:
    trust = trusts.grant()
    revoked = trusts.token(trust)
    keystone.revoke(revoked)
    receiver.statuses = [401, 204, 401, 401]
    with trusts.target() as target:
        delivery = _delivery(f"trust+{receiver.uri}", {"trust_id": trust})
        assert trusts.run(target.deliver(delivery)).outcome is Outcome.DELIVERED
        first, second = (token for _, token in receiver.received)
        assert first == revoked
        assert keystone.token_document(second)["OS-TRUST:trust"]["id"] == trust
        assert trusts.run(target.deliver(delivery)).status == 401
    assert len(receiver.received) == 4


def test_webhook_without_its_trust_is_refused_and_says_why(
    trusts: BlockingTrusts, receiver: TokenReceiver
) -> None:
    with trusts.target() as target:
        for raw in ({}, {"trust_id": 1}, {"trust_id": 32 * "0"}, {"trust_id": "a/b"}):
            result = trusts.run(target.deliver(_delivery(f"trust+{receiver.uri}", raw)))
            assert result.outcome is Outcome.REFUSED
            assert "trust" in result.error
    assert receiver.received == []


def test_webhook_waits_while_keystone_is_away(
    unreachable: BlockingTrusts, receiver: TokenReceiver
) -> None:
    delivery = _delivery(f"trust+{receiver.uri}", {"trust_id": 32 * "0"})
    with unreachable.target() as target:
        assert unreachable.run(target.deliver(delivery)).outcome is Outcome.RETRY


def test_subscriber_that_could_get_nothing_is_refused(
    trusts: BlockingTrusts, keystone: RunningKeystone
) -> None:
    with trusts.target() as target:
        with pytest.raises(errors.BadRequest, match="trust_id"):
            target.check("trust+http://a", SubscriptionOptions(raw={"trust_id": 1}))
        with pytest.raises(errors.BadRequest, match="subscriber"):
            target.check("trust+ftp://a", SubscriptionOptions())
    with (
        _opened(None, keystone) as without,
        without.target() as target,
        pytest.raises(errors.BadRequest, match="strategy keystone"),
    ):
        target.check("trust+http://a", SubscriptionOptions())
