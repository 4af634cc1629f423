# SPDX-License-Identifier: Apache-2.0
"""Services whose connections are tested."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.server import counted_app
from tests.support import servers
from tests.support.backends import Backend
from tests.support.raw_http import RawConnection

#: Seconds that services keep an idle connection; `zaqar-redis serve` has no such option.
#: `impatient` keeps them longer than a busy machine takes from an answer to the next request.
_IMPATIENT, _PATIENT = 5, 300


@pytest.fixture
def connection(service: servers.RunningService) -> Iterator[RawConnection]:
    with RawConnection(service.port) as made:
        yield made


@pytest.fixture(scope="session")
def impatient(redis_server: Backend) -> Iterator[servers.RunningService]:
    """A service that closes idle connections soon."""
    with _service(redis_server, _IMPATIENT) as running:
        yield running


@pytest.fixture(scope="session")
def counted(redis_server: Backend) -> Iterator[servers.RunningService]:
    """A service of `counted_app`."""
    with _service(redis_server, _PATIENT) as running:
        yield running


@contextlib.contextmanager
def _service(store: Backend, keep_alive: int) -> Iterator[servers.RunningService]:
    words = ("--keep-alive", str(keep_alive))
    with servers.application(counted_app, {counted_app.STORE: store.uri}, *words) as running:
        yield running
