# SPDX-License-Identifier: Apache-2.0
"""Fixtures of servers that a module has to itself, each defined in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pytest

from tests.support import servers
from tests.support.backends import Backend

Scope = Literal["function", "module", "session"]


def redis(scope: Scope = "module", *, fsync: str | None = None) -> Any:
    """Returns a fixture of a Redis of its own."""

    @pytest.fixture(scope=scope)
    def own() -> Iterator[servers.RedisServer]:
        with servers.redis_server(fsync=fsync) as running:
            yield running

    return own


def service(
    options: Mapping[str, Mapping[str, object]], *, workers: int = 1, scope: Scope = "module"
) -> Any:
    """Returns a fixture of a service with *options*, on the store that tests share."""

    # It names the store's fixture: --store looks for tests that depend on it.
    @pytest.fixture(scope=scope)
    def own(redis_server: Backend) -> Iterator[servers.RunningService]:
        with servers.service(redis_server.uri, workers=workers, options=options) as running:
            yield running

    return own
