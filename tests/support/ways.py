# SPDX-License-Identifier: Apache-2.0
"""The two ways of a request through the server, see `zaqar_redis.api.server.protocol`."""

from __future__ import annotations

HOT = "hot"
ORDINARY = "ordinary"

#: Headers by way.  With an expectation, even one that the server does not know, a request
#: takes the ordinary way; without it, a request for a hot route takes the short one.
WAYS: dict[str, dict[str, str]] = {HOT: {}, ORDINARY: {"Expect": "nothing-special"}}
