# SPDX-License-Identifier: Apache-2.0
"""Tokens of channels are for one project: that of the access key that has signed them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import jwt
import pytest

from tests.auth import key_clients
from tests.auth.key_clients import CLIENT, MESSAGES, IssuedKey, KeyOperator, key_operator
from tests.realtime.sdk_client import SECRET
from tests.realtime.streams import StreamingClient, lines
from tests.support import fixtures, servers
from tests.support.backends import Backend
from tests.support.servers import RunningService

_OPTIONS = key_clients.OPTIONS | {"channels": {"token_hmac_secret_key": SECRET, "project": "first"}}
_INVALID = {"code": 3500, "reason": "invalid token"}


service = fixtures.service(_OPTIONS)


@pytest.fixture(scope="module")
def operator(redis_server: Backend) -> Iterator[KeyOperator]:
    with key_operator(redis_server.uri) as commands:
        yield commands


def _signed(key: IssuedKey | None, **claims: Any) -> str:
    """Returns a token of the user "ann"; None: by the key of the installation."""
    claims = {"sub": "ann"} | claims
    if key is None:
        return jwt.encode(claims, SECRET, algorithm="HS256")
    return jwt.encode(claims, key.secret, algorithm="HS256", headers={"kid": key.id})


def _connect(service: RunningService, token: str) -> StreamingClient:
    first = {"id": 1, "connect": {"token": token}}
    return StreamingClient(service, "http_stream", lines(first))


def _refusal(service: RunningService, token: str) -> Any:
    with _connect(service, token) as client:
        return client.next()["push"]["disconnect"]


def _post(service: RunningService, key: IssuedKey, queue: str) -> None:
    headers = key.bearer | {"Client-ID": CLIENT}
    url = f"{service.url}/v2/queues/{queue}/messages"
    assert httpx.post(url, json=MESSAGES, headers=headers, timeout=60).status_code == 201


def test_token_of_an_access_key_opens_the_channels_of_its_project(
    service: RunningService, operator: KeyOperator
) -> None:
    key = operator.create(project="second")
    for named in ({}, {"project": "second"}):
        with _connect(service, _signed(key, channels=["queue:q"], **named)) as client:
            assert "queue:q" in client.connected()["subs"]
            _post(service, key, "q")
            assert client.next()["push"]["pub"]["data"] == 1


def test_token_of_an_access_key_for_another_project_is_refused(
    service: RunningService, operator: KeyOperator
) -> None:
    key = operator.create(project="second")
    assert _refusal(service, _signed(key, project="first")) == _INVALID


def test_key_of_the_installation_signs_for_its_project_only(service: RunningService) -> None:
    assert _refusal(service, _signed(None, project="second")) == _INVALID
    for named in ({}, {"project": "first"}):
        with _connect(service, _signed(None, **named)) as client:
            assert client.connected()["client"]


def test_option_lets_the_key_of_the_installation_sign_for_every_project(
    redis_server: Backend,
) -> None:
    channels = _OPTIONS["channels"] | {"token_any_project": True}
    with (
        servers.service(redis_server.uri, options={"channels": channels}) as service,
        _connect(service, _signed(None, project="second")) as client,
    ):
        assert client.connected()["client"]


def test_subscription_token_of_another_project_is_refused(
    service: RunningService, operator: KeyOperator
) -> None:
    key = operator.create(project="second")
    own = _signed(key, channel="queue:own")
    foreign = _signed(None, channel="queue:foreign")
    with _connect(service, _signed(key)) as client:
        client.connected()
        client.send({"id": 2, "subscribe": {"channel": "queue:own", "token": own}})
        assert "subscribe" in client.next()
        client.send({"id": 3, "subscribe": {"channel": "queue:foreign", "token": foreign}})
        assert client.last_push()["push"]["disconnect"] == _INVALID


@pytest.mark.parametrize("right", ["orders:channels:token", "*:messages:*"])
def test_key_without_the_right_signs_no_tokens(
    service: RunningService, operator: KeyOperator, right: str
) -> None:
    key = operator.create("--right", right, project="second")
    assert _refusal(service, _signed(key)) == _INVALID
    key = operator.create("--right", "*:channels:token", project="second")
    with _connect(service, _signed(key)) as client:
        assert client.connected()["client"]


def test_key_of_a_reader_signs_no_tokens(service: RunningService, operator: KeyOperator) -> None:
    key = operator.create("--role", "reader", project="second")
    assert _refusal(service, _signed(key)) == _INVALID


def test_withdrawn_expired_and_forged_tokens_are_refused(
    service: RunningService, operator: KeyOperator
) -> None:
    key = operator.create(project="second")
    rotated = operator.rotate(key)
    assert _refusal(service, _signed(key)) == _INVALID
    with _connect(service, _signed(rotated, exp=time.time() - 1)) as client:
        assert client.next()["error"]["code"] == 109
    operator.done("key", "disable", rotated.id)
    assert _refusal(service, _signed(rotated)) == _INVALID
    unknown = jwt.encode({"sub": "ann"}, "x" * 32, "HS256", headers={"kid": "zk_" + "0" * 20})
    assert _refusal(service, unknown) == _INVALID
