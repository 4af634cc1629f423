# SPDX-License-Identifier: Apache-2.0
"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import gc
import os
import signal
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import servers

# Machines are shared: how long one example takes says nothing. In CI the examples are
# the same each time, so that a change is judged by what it changed.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


# For every Java that tests start, whoever starts it: nobody outside is to find it, and a
# short life is not worth a good compiler.
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# A shell's "&" ignores SIGINT for what it starts, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[servers.RedisServer]:
    """A Redis that the tests of one process share: keep to projects of your own."""
    with servers.redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def service(redis_server: servers.RedisServer) -> Iterator[servers.Service]:
    """A service with default options, shared likewise."""
    with servers.service(redis_server.uri) as running:
        yield running


@pytest.fixture(scope="module")
def collected() -> Iterator[None]:
    """Complaints of what the tests of a module left behind are made before it ends."""
    yield
    for _ in range(3):  # a connection is found before its socket
        gc.collect()


@pytest.fixture
def project() -> str:
    """A project that nobody else has."""
    return f"project-{uuid.uuid4()}"
