# SPDX-License-Identifier: Apache-2.0
"""The routes that the server answers itself, matched by one pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from zaqar_redis.api.endpoints import Endpoint
from zaqar_redis.api.routes import Route

#: Names and ids that need no decoding; others take the ordinary way.
_SEGMENT = r"([A-Za-z0-9_.-]{1,64})"


class HotPath(Struct):
    """One path of hot routes."""

    endpoints: dict[bytes, Endpoint]
    #: groups of the pattern: the parameters of the path
    groups: slice
    #: whether the first parameter is the name of a queue
    of_queue: bool


class HotRoutes:
    def __init__(self, routes: Iterable[Route]) -> None:
        by_path: dict[str, dict[bytes, Endpoint]] = {}
        for route in routes:
            if route.hot:
                by_path.setdefault(route.path, {})[route.method.encode()] = Endpoint(route)
        patterns: list[str] = []
        #: by the number of the last group that matched: an empty one behind each path
        self._paths: dict[int | None, HotPath] = {}
        groups = 0
        for path, endpoints in by_path.items():
            pattern, count = re.subn(r"\{\w+\}", _SEGMENT, path)
            patterns.append(f"{pattern}()")
            names = slice(groups, groups + count)
            groups += count + 1
            self._paths[groups] = HotPath(endpoints, names, path.startswith("/v2/queues/{queue}"))
        self._match = re.compile("|".join(patterns).encode()).fullmatch

    def find(self, method: bytes, path: bytes) -> tuple[Endpoint, list[str], HotPath] | None:
        """Returns the endpoint of a request, and the parameters of its path."""
        match = self._match(path)
        if match is None:
            return None
        found = self._paths[match.lastindex]
        endpoint = found.endpoints.get(method)
        if endpoint is None:
            return None
        return endpoint, [name.decode() for name in match.groups()[found.groups]], found
