# SPDX-License-Identifier: Apache-2.0
"""The service that the description of the API is held against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers


@pytest.fixture(scope="session")
def described(redis_server: servers.RedisServer) -> Iterator[servers.Service]:
    """All that can be switched on is on; nobody waits for long."""
    options: dict[str, dict[str, object]] = {
        "DEFAULT": {"admin_mode": True, "enable_checksum": True},
        "signed_url": {"secret_key": "a key for the tests of the description"},
        "transport": {"message_encryption_key": "another key for them", "max_wait": 1},
    }
    with servers.service(redis_server.uri, options=options) as running:
        yield running
