# SPDX-License-Identifier: Apache-2.0
"""What each role may do with each route: what the policy of an installation without a file says."""

from __future__ import annotations

import abc
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import httpx

from tests.support.raw_http import CLIENT
from zaqar_redis import conf as configuration
from zaqar_redis.api.app import App
from zaqar_redis.api.composition import ServiceParts, compose
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.auth.identity import ADMIN, MEMBER, READER
from zaqar_redis.cli import service_factory
from zaqar_redis.storage import pools

#: Roles, the weakest first; each has the rights of those before it.
ROLES = (READER, MEMBER, ADMIN)
#: Rule -> the weakest role that it allows.
LEAST = {
    **dict.fromkeys(
        (
            *("home:get", "queues:get_all", "queues:get", "queues:stats"),
            *("messages:get_all", "messages:get", "claims:get", "flavors:get_all", "flavors:get"),
            *("messages:peek", "claims:get_all", "subscription:get_all", "subscription:get"),
            *("topics:get_all", "topics:get", "topics:stats"),
            *("schedules:get_all", "schedules:get"),
            *("quotas:get", "console:session", "console:ticket"),
            *("console:overview", "console:queues", "console:history", "console:namespace"),
            "console:attributes",
            *("channels:call", "channels:batch", "channels:presence", "channels:presence_stats"),
            *("channels:history", "channels:channels", "channels:info"),
            "channels:topic_subscribers",
        ),
        READER,
    ),
    **dict.fromkeys(
        (
            *("queues:create", "queues:update", "queues:delete", "queues:purge", "queues:share"),
            *("messages:create", "messages:delete", "messages:delete_all", "messages:move"),
            *("claims:create", "claims:update", "claims:delete"),
            *("subscription:create", "subscription:update", "subscription:delete"),
            *("subscription:confirm", "subscription:replay", "subscription:test"),
            *("topics:create", "topics:update", "topics:delete", "topics:purge", "topics:share"),
            *("schedules:create", "schedules:delete"),
            *("channels:publish", "channels:broadcast", "channels:history_remove", "channels:rpc"),
            "channels:send",
        ),
        MEMBER,
    ),
    **dict.fromkeys(
        (
            *("pools:get_all", "pools:get", "pools:create", "pools:update", "pools:delete"),
            *("pools:locate", "pools:rebalance", "health:get"),
            *("flavors:create", "flavors:update", "flavors:delete"),
            *("quotas:get_all", "quotas:update", "quotas:delete"),
            *("keys:get_all", "keys:create", "keys:update", "keys:rotate", "keys:delete"),
            *("channels:subscribe", "channels:unsubscribe"),
            *("channels:topic_subscribe", "channels:topic_unsubscribe"),
            *("channels:disconnect", "channels:refresh", "console:connections"),
            "console:projects",
        ),
        ADMIN,
    ),
}
#: Rules of what is no project's.
OF_NO_PROJECT = frozenset(("home:get", "flavors:get_all", "flavors:get"))
#: Paths that everybody may use; the frames of a socket are checked one by one.
PUBLIC = frozenset(
    (
        *(
            *("/", "/v2", "/health", "/healthcheck", "/healthcheck/live", "/healthcheck/ready"),
            *("/v2/ping", "/openapi.json", "/v2/ws"),
        ),
        *("/console", "/console/", "/console/{name}", "/console/about", "/api/{method}"),
    )
)
#: Of clients of channels, who have tokens of their own.
_CHANNELS = ("/connection", "/emulation")

_VALUES = {
    "queue": "matrix",
    "topic": "matrix",
    "claim": uuid.uuid4().hex,
    "message": str(uuid.uuid4()),
}


def all_routes() -> list[ApiRoute]:
    """Returns the rows of the table, those of operators too."""
    store = "unix:///nowhere"
    conf = configuration.load([], [])
    console = service_factory.console(conf)
    channels = service_factory.channels(conf, store, console)
    parts = ServiceParts(pools.create(store, store, {}), channels=channels, console=console)
    app = App(compose(ApiSettings(admin_mode=True), parts))
    return [route for route in app.routes if not route.path.startswith(_CHANNELS)]


def is_public(route: ApiRoute) -> bool:
    """Returns whether nobody is asked who sends a request."""
    return route.public and route.guard is None


class Caller(abc.ABC):
    """Callers of a service, one for each role, in one project."""

    def __init__(self, url: str, project: str = "") -> None:
        self.url = url
        self.project = project or str(uuid.uuid4())

    @abc.abstractmethod
    def credential(self, role: str) -> dict[str, str]:
        """Returns the headers that say who somebody with the role is."""


class Attempt(NamedTuple):
    route: ApiRoute
    status: int

    @property
    def is_allowed(self) -> bool:
        return self.status not in (401, 403)


def attempt(http: httpx.Client, route: ApiRoute, headers: Mapping[str, str]) -> Attempt:
    """Sends a request that the route refuses, if for nothing else, for what it says."""
    values = _VALUES | {"project": headers["X-Project-ID"]}
    path = re.sub(r"{(\w+)}", lambda name: values.get(name[1], "none"), route.path)
    body = b"{}" if route.body is not None else b""
    all_headers = {"Client-ID": CLIENT, "Content-Type": "text/plain"} | dict(headers)
    answer = http.request(route.method, path, headers=all_headers, content=body)
    return Attempt(route, answer.status_code)


def is_expected(route: ApiRoute, role: str, *, foreign: bool) -> bool:
    """Returns whether a role may use the route, in a *foreign* project."""
    if foreign and role != ADMIN and route.action not in OF_NO_PROJECT:
        return False
    return ROLES.index(role) >= ROLES.index(LEAST[route.action])


def unexpected(
    caller: Caller, routes: Iterable[ApiRoute], role: str, *, foreign: bool
) -> list[tuple[str, str, int]]:
    """Returns method, path and status of what is allowed or refused, and should not be."""
    project = str(uuid.uuid4()) if foreign else caller.project
    headers = caller.credential(role) | {"X-Project-ID": project}
    # Keystone may take its time, too.
    with httpx.Client(base_url=caller.url, timeout=60) as http:
        attempts = [attempt(http, route, headers) for route in routes]
    return [
        (each.route.method, each.route.path, each.status)
        for each in attempts
        if each.is_allowed
        != (is_public(each.route) or is_expected(each.route, role, foreign=foreign))
    ]
