# SPDX-License-Identifier: Apache-2.0
"""The service that is compared with the description of the API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api_schema.description import LIMITS
from tests.support import servers
from tests.support.backends import Backend


@pytest.fixture(scope="session")
def described(redis_server: Backend) -> Iterator[servers.RunningService]:
    """A service with every optional feature enabled, and a short maximum wait."""
    options: dict[str, dict[str, object]] = {
        "DEFAULT": {"admin_mode": True, "enable_checksum": True},
        "signed_url": {"secret_key": "a key for the tests of the description"},
        "transport": {
            "message_encryption_key": "another key for them",
            "max_wait": LIMITS.max_wait,
        },
    }
    with servers.service(redis_server.uri, options=options) as running:
        yield running
