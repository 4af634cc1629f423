# SPDX-License-Identifier: Apache-2.0
"""The application, as the server sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from zaqar_redis.api.audit import RequestAudit
from zaqar_redis.api.checks import RequestChecks
from zaqar_redis.api.server.hot_routes import HotRoutes


class ServedApp(Protocol):
    """What the protocol needs of the application, besides ASGI."""

    @property
    def settings(self) -> Any: ...

    @property
    def hot_routes(self) -> HotRoutes: ...

    @property
    def checks(self) -> RequestChecks: ...

    @property
    def audit(self) -> RequestAudit: ...

    @property
    def request_ids(self) -> Iterator[str]: ...
