# SPDX-License-Identifier: Apache-2.0
"""The routes that the server answers itself, matched by one pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from zaqar_redis.api.endpoints import Endpoint
from zaqar_redis.api.routes import ApiRoute

#: Valid names of queues, and all ids; others take the ASGI path.
_SEGMENT = r"([A-Za-z0-9_.-]{1,64})"


class HotRoutes:
    def __init__(self, routes: Iterable[ApiRoute], is_audited: Callable[[str], bool]) -> None:
        """*is_audited* says of an action whether its requests are in the audit log."""
        by_path: dict[str, dict[bytes, Endpoint]] = {}
        for route in routes:
            if route.hot:
                by_path.setdefault(route.path, {})[route.method.encode()] = Endpoint(
                    route, is_audited=is_audited(route.action)
                )
        patterns: list[str] = []
        #: by the number of the last group that matched: an empty one behind each path
        self._paths: dict[int | None, tuple[dict[bytes, Endpoint], slice]] = {}
        groups = 0
        for path, endpoints in by_path.items():
            pattern, count = re.subn(r"\{\w+\}", _SEGMENT, path)
            patterns.append(f"{pattern}()")
            names = slice(groups, groups + count)
            groups += count + 1
            self._paths[groups] = endpoints, names
        self._match = re.compile("|".join(patterns)).fullmatch

    def time_next(self) -> None:
        """Times the next request of each route: timing all would cost more than counting them."""
        for endpoints, _ in self._paths.values():
            for endpoint in endpoints.values():
                endpoint.times_next = True

    def find(self, method: bytes, path: str) -> tuple[Endpoint, tuple[str, ...]] | None:
        """Returns the endpoint of a request, and the parameters of its path."""
        match = self._match(path)
        if match is None:
            return None
        endpoints, names = self._paths[match.lastindex]
        endpoint = endpoints.get(method)
        return None if endpoint is None else (endpoint, match.groups()[names])
