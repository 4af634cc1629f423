# SPDX-License-Identifier: Apache-2.0
"""An OpenID provider, and a service that accepts its tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import openid, servers
from tests.support.backends import Backend

#: of the server API
API_KEY = "the operator's key"


@pytest.fixture(scope="session")
def provider() -> Iterator[openid.OpenIdProvider]:
    """A provider with three keys, and a secret by mistake; tests add others."""
    started = openid.OpenIdProvider()
    for name, algorithm in (("first", "ES256"), ("rsa", "RS256"), ("edwards", "EdDSA")):
        started.add_key(name, algorithm)
    started.publish_secret("shared")
    started.start()
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def jwt_service(
    redis_server: Backend, provider: openid.OpenIdProvider
) -> Iterator[servers.RunningService]:
    """A service of one worker, whose channels have a history."""
    channels: dict[str, object] = {
        "api_key": API_KEY,
        "history_size": 10,
        "history_ttl": 60,
        "presence": True,
    }
    options = openid.options(provider, roles="reader=r, member=zaqar-member, admin=a")
    with servers.service(redis_server.uri, options=options | {"channels": channels}) as running:
        yield running
