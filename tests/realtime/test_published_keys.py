# SPDX-License-Identifier: Apache-2.0
"""Tokens whose keys are published: somebody else's server, and keys that come and go."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from tests.realtime.test_session import OPEN, Client, House
from tests.realtime.test_session import token as without_name
from zaqar_redis.auth import published, tokens
from zaqar_redis.realtime.world import Settings


class Publisher:
    """Answers with what it has, and counts how often it was asked."""

    def __init__(self) -> None:
        self.keys: dict[str, Ed25519PrivateKey] = {}
        self.asked = 0
        #: in place of the keys
        self.document: bytes | None = None
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                publisher.asked += 1
                body = publisher.answer()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
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
        """A token that is signed with a new key."""
        self.keys[name] = Ed25519PrivateKey.generate()
        return self.token(name, self.keys[name])

    def token(self, name: str, key: Ed25519PrivateKey | None = None) -> str:
        key = key or Ed25519PrivateKey.generate()
        return jwt.encode({"sub": "ann"}, key, algorithm="EdDSA", headers={"kid": name})


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    made = Publisher()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()


@pytest.fixture
def house(publisher: Publisher) -> Iterator[House]:
    with asyncio.Runner() as runner:
        made = House(runner)
        made.build(Settings(), OPEN)
        made.node.verifier = made.scope.verifier = tokens.Verifier(
            tokens.Settings(jwks_url=publisher.url)
        )
        yield made
        made.run(made.node.close())


def tries(house: House, given: str) -> int | None:
    """How it is closed; None: it is connected."""
    client = Client(house)
    replies = client.says({"id": 1, "connect": {"token": given}})
    assert (client.code is None) == any("connect" in each for each in replies)
    return client.code


def test_a_new_key_is_good_as_soon_as_it_is_published(
    house: House, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "_PAUSE", 0.0)
    first = publisher.publish("first")
    assert [tries(house, first) for _ in range(5)] == [None] * 5
    assert publisher.asked == 1
    second = publisher.publish("second")
    assert [tries(house, each) for each in (second, first)] == [None, None]
    assert publisher.asked == 2


def test_a_key_that_is_withdrawn_is_good_no_longer(
    house: House, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "_PAUSE", 0.0)
    monkeypatch.setattr(published, "_LIFE", 2.0)
    first = publisher.publish("first")
    assert tries(house, first) is None
    del publisher.keys["first"]
    while (code := tries(house, first)) is None:
        house.run(asyncio.sleep(0.05))
    assert code == 3004


def test_who_names_a_key_that_is_not_there_yet_comes_back_until_it_is(
    house: House, publisher: Publisher
) -> None:
    first = publisher.publish("first")
    assert tries(house, first) is None
    began, before = time.monotonic(), publisher.asked
    key = Ed25519PrivateKey.generate()
    early = publisher.token("second", key)
    for number in range(30):
        assert tries(house, early) == tries(house, publisher.token(f"made up {number}")) == 3004
        assert tries(house, first) is None
    assert publisher.asked - before <= 1 + (time.monotonic() - began) / published._PAUSE
    ann = Client(house)
    ann.ask(connect={"token": first})
    refused = ann.ask(subscribe={"channel": "x", "token": early})["error"]
    assert (refused["code"], refused["temporary"]) == (100, True)
    publisher.keys["second"] = key
    while (code := tries(house, early)) is not None:
        assert code == 3004
        house.run(asyncio.sleep(0.05))


def test_a_token_that_another_key_signed_is_invalid(house: House, publisher: Publisher) -> None:
    publisher.publish("first")
    assert tries(house, publisher.token("first")) == 3500
    assert tries(house, without_name()) == 3500


@pytest.mark.parametrize("document", [b"<html>Back soon</html>", b"[]", b'{"keys": []}', b"\xff"])
def test_what_is_no_set_of_keys_sends_nobody_away_for_good(
    house: House,
    publisher: Publisher,
    document: bytes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(published, "_PAUSE", 0.0)
    given = publisher.publish("first")
    publisher.document = document
    assert [tries(house, given) for _ in range(3)] == [3004] * 3
    assert publisher.asked == 3
    assert [each.getMessage()[:17] for each in caplog.records] == ["no published keys"]
    publisher.document = None
    while (code := tries(house, given)) is not None:
        assert code == 3004
        house.run(asyncio.sleep(0.05))
