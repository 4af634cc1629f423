# SPDX-License-Identifier: Apache-2.0
"""The service that is compared with the description of the API."""

from __future__ import annotations

from tests.api_schema.description import LIMITS
from tests.support import fixtures

#: A service with every optional feature enabled, and a short maximum wait.
described = fixtures.service(
    {
        "DEFAULT": {"admin_mode": True, "enable_checksum": True},
        "signed_url": {"secret_key": "a key for the tests of the description"},
        "transport": {
            "message_encryption_key": "another key for them",
            "max_wait": LIMITS.max_wait,
        },
    },
    scope="session",
)
