# SPDX-License-Identifier: Apache-2.0
"""Clients of the WebSocket API, and a service that authenticates them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.backends import Backend
from tests.websocket import guarded_app
from tests.websocket.peers import ApiPeer, api_peer

NewPeer = Callable[..., ApiPeer]


@pytest.fixture(params=["json", "messagepack"])
def peer(
    service: servers.RunningService, project: str, request: pytest.FixtureRequest
) -> Iterator[ApiPeer]:
    """A client of either encoding, of a service without authentication."""
    with api_peer(service, project, binary=request.param == "messagepack") as connected:
        yield connected


@pytest.fixture
def text_peer(service: servers.RunningService, project: str) -> Iterator[ApiPeer]:
    with api_peer(service, project) as connected:
        yield connected


@pytest.fixture
def new_peer(service: servers.RunningService, project: str) -> Iterator[NewPeer]:
    """Connects a client; by default of the test's project, in JSON."""
    with contextlib.ExitStack() as stack:

        def connect(of: str = project, *, binary: bool = False) -> ApiPeer:
            return stack.enter_context(api_peer(service, of, binary=binary))

        yield connect


class GuardedService:
    """A service of `guarded_app`, and the tokens that it knows."""

    def __init__(self, running: servers.RunningService, tokens: Path) -> None:
        self.running = running
        self._tokens = tokens

    def put(self, token: str, project: str, *roles: str) -> None:
        (self._tokens / token).write_text(" ".join((project, *roles)))

    def revoke(self, token: str) -> None:
        (self._tokens / token).unlink()


@pytest.fixture(scope="session")
def guarded(
    redis_server: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GuardedService]:
    tokens = tmp_path_factory.mktemp("tokens")
    environment = {guarded_app.STORE: redis_server.uri, guarded_app.TOKENS: str(tokens)}
    with servers.application(guarded_app, environment) as running:
        yield GuardedService(running, tokens)


@pytest.fixture
def member(guarded: GuardedService, project: str) -> str:
    """The token of a member of the project."""
    text = f"token-{uuid.uuid4()}"
    guarded.put(text, project, "member")
    return text
