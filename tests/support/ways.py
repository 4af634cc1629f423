# SPDX-License-Identifier: Apache-2.0
"""The two paths of a request through the server, see `zaqar_redis.api.server.protocol`."""

from __future__ import annotations

HOT = "hot"
ASGI = "asgi"

#: Headers by way.  With an expectation, even one that the server does not know, a request
#: takes the ASGI path; without it, a request for a hot route takes the fast path.
WAYS: dict[str, dict[str, str]] = {HOT: {}, ASGI: {"Expect": "nothing-special"}}
