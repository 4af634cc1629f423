# SPDX-License-Identifier: Apache-2.0
"""What each role may do with each route: what the policy of an installation without a file says."""

from __future__ import annotations

import abc
import re
import uuid
from collections.abc import Mapping
from typing import NamedTuple

import httpx

from tests.support.raw_http import CLIENT
from zaqar_redis.api.app import ApiSettings, App
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.auth.identity import ADMIN, MEMBER, READER
from zaqar_redis.storage import pools

#: Roles, the weakest first; each has the rights of those before it.
ROLES = (READER, MEMBER, ADMIN)
#: Rule -> the weakest role that it allows.
LEAST = {
    **dict.fromkeys(
        (
            *("home:get", "queues:get_all", "queues:get", "queues:stats"),
            *("messages:get_all", "messages:get", "claims:get", "flavors:get_all", "flavors:get"),
            "quotas:get",
        ),
        READER,
    ),
    **dict.fromkeys(
        (
            *("queues:create", "queues:update", "queues:delete", "queues:purge", "queues:share"),
            *("messages:create", "messages:delete", "messages:delete_all"),
            *("claims:create", "claims:update", "claims:delete"),
        ),
        MEMBER,
    ),
    **dict.fromkeys(
        (
            *("pools:get_all", "pools:get", "pools:create", "pools:update", "pools:delete"),
            *("pools:locate", "pools:rebalance", "health:get"),
            *("flavors:create", "flavors:update", "flavors:delete"),
            *("quotas:get_all", "quotas:update", "quotas:delete"),
        ),
        ADMIN,
    ),
}
#: Rules of what is no project's.
OF_NO_PROJECT = frozenset(("home:get", "flavors:get_all", "flavors:get"))
#: Paths that everybody may use; the frames of a socket are checked one by one.
PUBLIC = frozenset(("/", "/health", "/healthcheck", "/v2/ping", "/openapi.json", "/v2/ws"))
#: Their own keys and tokens guard them.
_GUARDED = ("/api", "/connection", "/emulation", "/console")

_VALUES = {"queue": "matrix", "claim": uuid.uuid4().hex, "message": str(uuid.uuid4())}


def rest_routes() -> list[ApiRoute]:
    """Returns the rows of the table that serve the REST API, those of operators too."""
    driver = pools.create("unix:///nowhere", "unix:///nowhere", {})
    app = App(driver, ApiSettings(admin_mode=True))
    return [route for route in app.routes if not route.path.startswith(_GUARDED)]


class Caller(abc.ABC):
    """Callers of a service, one for each role, in one project."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.project = str(uuid.uuid4())

    @abc.abstractmethod
    def credential(self, role: str) -> dict[str, str]:
        """Returns the headers that say who somebody with the role is."""


class Attempt(NamedTuple):
    route: ApiRoute
    status: int

    @property
    def is_allowed(self) -> bool:
        return self.status not in (401, 403)


def attempt(url: str, route: ApiRoute, headers: Mapping[str, str]) -> Attempt:
    """Sends a request that the route refuses, if for nothing else, for what it says."""
    values = _VALUES | {"project": headers["X-Project-ID"]}
    path = re.sub(r"{(\w+)}", lambda name: values.get(name[1], "none"), route.path)
    body = b"{}" if route.body is not None else b""
    all_headers = {"Client-ID": CLIENT, "Content-Type": "text/plain"} | dict(headers)
    answer = httpx.request(route.method, url + path, headers=all_headers, content=body)
    return Attempt(route, answer.status_code)


def is_expected(route: ApiRoute, role: str, *, foreign: bool) -> bool:
    """Returns whether a role may use the route, in a *foreign* project."""
    if foreign and role != ADMIN and route.action not in OF_NO_PROJECT:
        return False
    return ROLES.index(role) >= ROLES.index(LEAST[route.action])
