# SPDX-License-Identifier: Apache-2.0
"""Commands against a service, and directly against the store."""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.command_line import CommandLine
from tests.support.tiers import in_gate
from zaqar_redis.cli import target

ADMIN: dict[str, dict[str, object]] = {"DEFAULT": {"admin_mode": True}}


@pytest.fixture
def store_shell(server: servers.RedisServer) -> CommandLine:
    """Commands at a store of their own."""
    return CommandLine(["--storage", server.uri])


@contextlib.contextmanager
def target_of(kind: str) -> Iterator[list[str]]:
    with servers.redis_server() as server:
        if kind == "storage":
            yield ["--storage", server.uri]
        else:
            with servers.service(server.uri, options=ADMIN) as service:
                yield ["--url", service.url]


@pytest.fixture(params=in_gate(["storage", "url"], "url"))
def shell(request: pytest.FixtureRequest) -> Iterator[CommandLine]:
    with target_of(request.param) as found:
        yield CommandLine(found)


@pytest.fixture(scope="module", params=in_gate(["storage", "url"], "url"))
def shared_target(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    with target_of(request.param) as found:
        yield found


@pytest.fixture
def project_shell(shared_target: list[str]) -> CommandLine:
    """Commands for a project of their own, at a service or store that tests of a file share."""
    return CommandLine([*shared_target, "--project", uuid.uuid4().hex])


@pytest.fixture
def in_process() -> CommandLine:
    """Commands without options for their target."""
    return CommandLine()


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home directory without profiles, configuration and data."""
    for name in (target.URL_VARIABLE, target.URI_VARIABLE, "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    # Not pytest's tmp_path: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="zr-home-") as folder:
        monkeypatch.setenv("HOME", folder)
        yield Path(folder)
