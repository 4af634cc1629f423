# SPDX-License-Identifier: Apache-2.0
"""Tokens whose keys come from a JWKS server, and keys that are added and withdrawn."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from tests.realtime.test_session import NodeHarness, SessionClient, node_harness
from tests.realtime.test_session import token as without_name
from tests.support import servers
from tests.support.http_handlers import QuietHandler, local_server
from zaqar_redis.auth import jwks, tokens


class JwksServer:
    """Serves its keys, and counts the requests."""

    def __init__(self) -> None:
        self.keys: dict[str, Ed25519PrivateKey] = {}
        self.request_count = 0
        #: served instead of the keys
        self.document: bytes | None = None
        publisher = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                publisher.request_count += 1
                self.answer(200, publisher.answer())

        self.server = local_server(Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"

    def answer(self) -> bytes:
        if self.document is not None:
            return self.document
        keys = [
            OKPAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": name, "use": "sig"}
            for name, key in self.keys.items()
        ]
        return json.dumps({"keys": keys}).encode()

    def publish(self, name: str) -> str:
        """Publishes a new key; returns a token that it signed."""
        self.keys[name] = Ed25519PrivateKey.generate()
        return self.token(name, self.keys[name])

    def token(self, name: str, key: Ed25519PrivateKey | None = None) -> str:
        key = key or Ed25519PrivateKey.generate()
        return jwt.encode({"sub": "ann"}, key, algorithm="EdDSA", headers={"kid": name})


@pytest.fixture
def publisher() -> Iterator[JwksServer]:
    jwks_server = JwksServer()
    with servers.http_server(jwks_server.server):
        yield jwks_server


@pytest.fixture
def harness(runner: asyncio.Runner, publisher: JwksServer) -> Iterator[NodeHarness]:
    settings = tokens.TokenSettings(jwks_public_endpoint=publisher.url)
    with node_harness(runner) as started:
        started.node.verifier = started.scope.verifier = tokens.TokenVerifier(settings)
        yield started


def test_new_key_is_valid_as_soon_as_published(
    harness: NodeHarness, publisher: JwksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "_REFETCH_INTERVAL", 0.0)
    first = publisher.publish("first")
    assert [harness.close_code(first) for _ in range(5)] == [None] * 5
    assert publisher.request_count == 1
    second = publisher.publish("second")
    assert [harness.close_code(each) for each in (second, first)] == [None, None]
    assert publisher.request_count == 2


def test_withdrawn_key_becomes_invalid(
    harness: NodeHarness, publisher: JwksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "_REFETCH_INTERVAL", 0.0)
    monkeypatch.setattr(jwks, "_CACHE_TTL", 2.0)
    first = publisher.publish("first")
    assert harness.close_code(first) is None
    del publisher.keys["first"]
    while (code := harness.close_code(first)) is None:
        harness.run(asyncio.sleep(0.05))
    assert code == 3004


def test_token_of_unpublished_key_is_temporarily_refused(
    harness: NodeHarness, publisher: JwksServer
) -> None:
    first = publisher.publish("first")
    assert harness.close_code(first) is None
    began, before = time.monotonic(), publisher.request_count
    key = Ed25519PrivateKey.generate()
    early = publisher.token("second", key)
    for number in range(30):
        assert (
            harness.close_code(early)
            == harness.close_code(publisher.token(f"made up {number}"))
            == 3004
        )
        assert harness.close_code(first) is None
    assert (
        publisher.request_count - before <= 1 + (time.monotonic() - began) / jwks._REFETCH_INTERVAL
    )
    ann = SessionClient(harness)
    ann.request(connect={"token": first})
    refused = ann.request(subscribe={"channel": "x", "token": early})["error"]
    assert (refused["code"], refused["temporary"]) == (100, True)
    publisher.keys["second"] = key
    while (code := harness.close_code(early)) is not None:
        assert code == 3004
        harness.run(asyncio.sleep(0.05))


def test_token_signed_by_another_key_is_invalid(
    harness: NodeHarness, publisher: JwksServer
) -> None:
    publisher.publish("first")
    assert harness.close_code(publisher.token("first")) == 3500
    assert harness.close_code(without_name()) == 3500


@pytest.mark.parametrize("document", [b"<html>Back soon</html>", b"[]", b'{"keys": []}', b"\xff"])
def test_invalid_jwks_document_refuses_temporarily(
    harness: NodeHarness,
    publisher: JwksServer,
    document: bytes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jwks, "_REFETCH_INTERVAL", 0.0)
    given = publisher.publish("first")
    publisher.document = document
    assert [harness.close_code(given) for _ in range(3)] == [3004] * 3
    assert publisher.request_count == 3
    assert [each.getMessage()[:17] for each in caplog.records] == ["no published keys"]
    publisher.document = None
    while (code := harness.close_code(given)) is not None:
        assert code == 3004
        harness.run(asyncio.sleep(0.05))
