# SPDX-License-Identifier: Apache-2.0
"""Keystone or memcached do not answer; what was valid is revoked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.keystone.conftest import TokenClient, options_of_service
from tests.support import servers
from tests.support.keystone import RunningKeystone
from tests.support.servers import RedisServer, RunningService
from tests.support.tiers import in_gate
from zaqar_redis import auth, errors
from zaqar_redis import conf as configuration
from zaqar_redis.auth.keystone import _THREADS, KeystoneStrategy
from zaqar_redis.auth.keystone_tokens import MemoryTokenCache, TokenValidator
from zaqar_redis.cli import service_factory

Create = Callable[..., TokenValidator]

#: Nobody wants to wait for a Keystone that a test has taken away.
_IMPATIENT: dict[str, object] = {"http_connect_timeout": 1, "http_request_max_retries": 0}


@pytest.fixture(scope="module")
def beside(keystone: RunningKeystone, own_store: RedisServer) -> Iterator[RunningService]:
    """A service that does not wait long for Keystone."""
    options = options_of_service(keystone, **_IMPATIENT)
    with servers.service(own_store.uri, options=options) as running:
        yield running


@pytest.fixture(scope="module")
def uncached(keystone: RunningKeystone, own_store: RedisServer) -> Iterator[RunningService]:
    """A service without a cache: of its two memcacheds one is down, and one hangs."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        ports = servers.free_port(), hanging.getsockname()[1]
        memcacheds = ",".join(f"127.0.0.1:{port}" for port in ports)
        options = options_of_service(
            keystone, memcached_servers=memcacheds, memcache_pool_socket_timeout=1
        )
        with servers.service(own_store.uri, options=options) as running:
            yield running


def _warm(client: TokenClient, token: str) -> None:
    """Lets the service know the token: it waits no longer than a second for Keystone."""
    servers.wait_for(lambda: client.listed(token).status_code == 200, "Keystone to know a token")


@pytest.fixture(params=in_gate(["stopped", "hanging"]))
def without_keystone(
    keystone: RunningKeystone, request: pytest.FixtureRequest
) -> Iterator[Callable[[], None]]:
    """A function that takes Keystone away, until it is called again."""
    gone = False

    def toggle() -> None:
        nonlocal gone
        gone = not gone
        if request.param == "hanging":
            (keystone.pause if gone else keystone.resume)()
        else:
            (keystone.stop if gone else keystone.start)()

    yield toggle
    if gone:
        toggle()


def test_without_keystone_warm_tokens_are_served_and_cold_ones_get_503(
    hot: TokenClient,
    keystone: RunningKeystone,
    beside: RunningService,
    without_keystone: Callable[[], None],
) -> None:
    warm, cold = keystone.token("member"), [keystone.token("member") for _ in range(3)]
    _warm(hot, warm)
    logged = len(beside.log.read_text())
    without_keystone()
    for token in cold:
        refused = hot.listed(token)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert "Keystone" in refused.json()["description"]
        assert hot.listed(warm).status_code == 200
    refusing = beside.log.read_text()[logged:]
    assert refusing.count("tokens cannot be validated: ") == 1  # not once for each token
    without_keystone()
    statuses: list[int] = []

    def are_served() -> bool:
        statuses.extend(hot.listed(token).status_code for token in cold)
        return statuses[-len(cold) :] == [200] * len(cold)

    # Each may fail again: over a connection that Keystone is just closing, or as it is slow.
    servers.wait_for(are_served, "Keystone to be asked")
    lines = beside.log.read_text()[logged:]
    lost, back = map(lines.count, ("tokens cannot be validated: ", "tokens can be validated again"))
    assert lost == back
    assert lost <= 2 + statuses.count(503)
    assert not set(cold) & set(lines.split())


def test_a_cold_token_stalls_nobody(
    hot: TokenClient, keystone: RunningKeystone, beside: RunningService
) -> None:
    warm, cold = keystone.token("member"), keystone.token("member")
    _warm(hot, warm)
    statuses: list[int] = []

    def send_cold() -> None:
        with httpx.Client(timeout=30) as http:
            statuses.append(TokenClient(http, beside.url, {}).listed(cold).status_code)

    keystone.pause()
    try:
        waiting = threading.Thread(target=send_cold)
        waiting.start()
        while waiting.is_alive():  # for a second: http_connect_timeout
            assert hot.listed(warm).status_code == 200
    finally:
        keystone.resume()
    assert statuses == [503]


@pytest.mark.nightly
def test_a_revoked_token_is_refused_once_it_is_asked_for_again(
    http: httpx.Client, keystone: RunningKeystone, uncached: RunningService
) -> None:
    api = TokenClient(http, uncached.url, {})
    revoked, without_role = keystone.token("member"), keystone.token("leaver")
    assert {api.listed(token).status_code for token in (revoked, without_role)} == {200}
    keystone.revoke(revoked)
    keystone.grant("member", "leaver", f"/projects/{keystone.projects['red']}", "DELETE")
    # After 5 s: here nothing is cached behind the service's own memory.
    for token in (revoked, without_role):
        servers.wait_for(
            lambda token=token: api.listed(token).status_code == 401,  # type: ignore[misc]
            "the token to be refused",
        )


@pytest.fixture
def validator(keystone: RunningKeystone, tmp_path: Path) -> Create:
    """A function that creates a validator, with other options; None: without the option."""

    def create(**more: object) -> TokenValidator:
        options = keystone.service_options() | {"http_request_max_retries": 0} | more
        set_ = {name: value for name, value in options.items() if value is not None}
        text = servers.config_text({"auth": {"strategy": "keystone"}, "keystone_authtoken": set_})
        return TokenValidator(configuration.load([], [servers.config_file(tmp_path, text)]))

    return create


async def test_a_warm_token_is_known_in_every_thread(
    keystone: RunningKeystone, validator: Create
) -> None:
    found, token = validator(), keystone.token("member")
    identity, _ = found.validate(token)
    asked = keystone.validations()

    results = await asyncio.gather(*(asyncio.to_thread(found.validate, token) for _ in range(20)))
    assert [each.user for each, _ in results] == [identity.user] * 20
    assert keystone.validations() == asked


def test_a_cached_token_is_valid_without_keystone_and_no_sign_of_it(
    keystone: RunningKeystone, validator: Create, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zaqar_redis")
    found, warm = validator(http_connect_timeout=1), keystone.token("member")
    cold = keystone.token("member")

    def is_validated(token: str) -> bool:
        with contextlib.suppress(errors.Unavailable):  # it answers others first
            found.validate(token)
            return True
        return False

    servers.wait_for(lambda: is_validated(warm), "Keystone to answer in time")
    identity, _ = found.validate(warm)
    caplog.clear()
    keystone.pause()
    try:
        for _ in range(2):
            with pytest.raises(errors.Unavailable):
                found.validate(cold)
            assert found.validate(warm)[0].user == identity.user
    finally:
        keystone.resume()
    servers.wait_for(lambda: is_validated(cold), "Keystone to answer in time")
    lines = [each.getMessage() for each in caplog.records if each.name.startswith("zaqar_redis")]
    assert [line.partition(":")[0] for line in lines] == [
        "tokens cannot be validated",
        "tokens can be validated again",
    ]


def test_the_cache_in_memory_is_bounded_and_forgets() -> None:
    cache = MemoryTokenCache()
    cache.set("never kept", b"data", -1)
    assert cache.get("never kept") is None
    for number in range(20_000):
        cache.set(str(number), b"data", 300)
    known = [number for number in range(20_000) if cache.get(str(number))]
    assert 0 < len(known) <= 8192
    assert known[-1] == 19_999


class TokenRequest(NamedTuple):
    """An `AuthRequest` of which only the headers matter."""

    headers: dict[bytes, bytes]
    method: str = "GET"
    raw_path: str = "/"
    query_string: str = ""

    async def read_body(self) -> bytes:
        return b""


async def test_requests_with_one_cold_token_ask_keystone_once(
    keystone: RunningKeystone, validator: Create
) -> None:
    # Without a cache each question would reach Keystone.
    request = TokenRequest({b"x-auth-token": keystone.token("member").encode()})

    asked = keystone.validations()
    strategy = KeystoneStrategy(validator(token_cache_time=-1))
    await strategy.start()
    found = await asyncio.gather(*(strategy.identify(request) for _ in range(20)))  # type: ignore[arg-type]  # none is known yet
    await strategy.close()
    assert {identity.project for identity in found} == {keystone.projects["blue"]}
    assert keystone.validations() == asked + 1


async def test_a_request_that_ends_does_not_end_the_question_of_others(
    keystone: RunningKeystone, validator: Create
) -> None:
    request = TokenRequest({b"x-auth-token": keystone.token("member").encode()})

    strategy = KeystoneStrategy(validator())
    first, second = (asyncio.ensure_future(strategy.identify(request)) for _ in range(2))  # type: ignore[arg-type]  # none is known yet
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).project == keystone.projects["blue"]


async def test_keystone_that_is_back_is_not_asked_what_nobody_waits_for(
    keystone: RunningKeystone, validator: Create
) -> None:
    late, new = [keystone.token("member") for _ in range(40)], keystone.token("member")
    asked = keystone.validations()
    strategy = KeystoneStrategy(validator(http_connect_timeout=1))

    async def ask(token: str) -> str:
        request = TokenRequest({b"x-auth-token": token.encode()})
        found = await strategy.identify(request)  # type: ignore[misc]  # it is new
        return str(found.project)

    keystone.pause()
    try:
        found = await asyncio.gather(*map(ask, late), return_exceptions=True)
    finally:
        keystone.resume()
    while True:
        with contextlib.suppress(errors.Unavailable):  # it may be slow at first
            assert await ask(new) == keystone.projects["blue"]
            break
    # Those that threads had begun, and one or some of the new token.
    assert keystone.validations() - asked < len(late) - _THREADS
    assert {type(each) for each in found} == {errors.Unavailable}


def test_memcacheds_that_are_down_and_hang_let_only_valid_tokens_in(
    http: httpx.Client, keystone: RunningKeystone, uncached: RunningService
) -> None:
    api = TokenClient(http, uncached.url, {})
    for token in [keystone.token("member") for _ in range(4)]:  # some for each memcached
        assert api.listed(token).status_code == 200
        assert api.listed(f"{token}A").status_code == 401


@pytest.mark.parametrize(
    "wrong", [{"password": "another"}, {"auth_url": "http://127.0.0.1:1/v3"}, {"username": "no"}]
)
def test_wrong_credentials_of_the_service_make_it_unavailable(
    keystone: RunningKeystone, validator: Create, wrong: dict[str, object]
) -> None:
    with pytest.raises(errors.Unavailable):
        validator(**wrong).validate(keystone.token("member"))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"auth_type": ""}, "auth_type"),
        ({"auth_type": "nonsense"}, "nonsense"),
        ({"auth_url": None}, "auth_url"),
        ({"memcache_security_strategy": "ENCRYPT"}, "memcache_secret_key"),
        ({"auth_urll": "http://localhost"}, "auth_url"),
    ],
)
def test_wrong_options_are_reported_at_the_start(
    validator: Create, wrong: dict[str, object], named: str
) -> None:
    with pytest.raises(errors.BadConfiguration, match=named):
        validator(**wrong)


def test_a_delayed_decision_lets_nobody_in(keystone: RunningKeystone, validator: Create) -> None:
    with pytest.raises(errors.Unauthenticated):
        validator(delay_auth_decision=True).validate("garbage")


def test_service_beside_keystone_listens_on_any_address(tmp_path: Path) -> None:
    common = "[drivers:transport:wsgi]\nbind = 192.0.2.1\n"
    own = "auth_type = password\nauth_url = http://192.0.2.1:5000\n"
    found = {}
    for strategy in ("keystone", "none", "keystone,none"):
        token_options = f"[keystone_authtoken]\n{own}" if "keystone" in strategy else ""
        text = f"{common}[auth]\nstrategy = {strategy}\n{token_options}"
        file = servers.config_file(tmp_path, text)
        found[strategy] = service_factory.problems(configuration.load([], [file]))
    assert found["keystone"] == []
    for strategy in ("none", "keystone,none"):
        assert found[strategy][0].startswith("[auth] strategy: ")


def test_without_the_extra_its_name_is_reported(
    validator: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keystonemiddleware", None)
    monkeypatch.delitem(sys.modules, "zaqar_redis.auth.keystone_tokens")
    monkeypatch.delattr(auth, "keystone_tokens")
    with pytest.raises(errors.BadConfiguration, match='the extra "keystone"'):
        validator()
