# SPDX-License-Identifier: Apache-2.0
"""What is said to a request that no route takes: what it may mean, or what the service lacks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from zaqar_redis.api.routes import ApiRoute

#: Characters of a path that are compared and repeated: more than any route and its names have.
_PATH_MAX = 400
#: How much of the shorter one two segments have in common that are taken for each other.
_NEAR = 0.75
_POOLING = "it needs the option [DEFAULT] pooling"
_CHANNELS = "it needs the option [channels] enabled"
#: Paths that only some services have, and what it takes.
_OPTIONAL = [
    (re.compile(paths), needs)
    for paths, needs in (
        (r"/v2/(pools|flavors|rebalance)\b|/v2/queues/[^/]+/pool$", _POOLING),
        (r"/v2/quotas\b", _POOLING),
        (r"/(connection|emulation|api)\b|/console/channels$", _CHANNELS),
        (r"/console(?!/channels$)(/|$)", "it needs the option [console] enabled"),
        (r"/console/token$", _CHANNELS),
        (r"/metrics$", "metrics have a port of their own, the option [metrics] port"),
    )
]


class RouteAdvice:
    """Finds what to say of paths and methods that no route has."""

    def __init__(self, served: Sequence[ApiRoute], possible: Iterable[ApiRoute]) -> None:
        """*possible*: those that the service has, or would have if it knew operators."""
        self._served = {each.path: _pattern(each.path) for each in served}
        self._sockets = [each.path for each in served if each.websocket is not None]
        there = {(each.method, each.path) for each in served}
        #: of routes that only operators have: method and pattern
        self._of_operators = [
            (each.method, _pattern(each.path))
            for each in possible
            if (each.method, each.path) not in there
        ]

    def of_path(self, method: str, path: str) -> str:
        """Returns what to say of a path that there is not."""
        path = path[:_PATH_MAX]
        if any(pattern.fullmatch(path) for _, pattern in self._of_operators):
            return _for_operators(method, path)
        if lacks := self.of_lack(path):
            return lacks
        meant = self._meant(path)
        what = f"did you mean {meant}?" if meant else "GET /openapi.json lists what there is."
        return f"There is nothing at {path}: {what}"

    def of_lack(self, path: str) -> str:
        """Returns what to say of a path that only other services have; "": it is none."""
        for pattern, needs in _OPTIONAL:
            if pattern.match(path) and not any(pattern.match(each) for each in self._served):
                return f"This service does not have {path[:_PATH_MAX]}: {needs}."
        return ""

    def of_method(self, method: str, path: str, allowed: str) -> str:
        """Returns what to say of a method that the path has not; *allowed*: those that it has."""
        path = path[:_PATH_MAX]
        if any(of == method and each.fullmatch(path) for of, each in self._of_operators):
            return _for_operators(method, path)
        return f"{path} does not take {method}: it takes {allowed}."

    def of_socket(self, path: str) -> str:
        """Returns what to say of a WebSocket that there is not."""
        there = " or ".join(self._sockets)
        return f"There is no WebSocket at {path[:_PATH_MAX]}: connect to {there}."

    def _meant(self, path: str) -> str:
        """Returns the path that is nearest, or ""."""
        whole = re.sub("/+", "/", path).rstrip("/")
        unversioned = re.sub(r"^/v\d[\d.]*(?=/|$)", "", whole)
        for each in (whole, f"/v2{unversioned}"):
            if any(pattern.fullmatch(each) for pattern in self._served.values()):
                return each
        given = whole.split("/")
        templates = [path.split("/") for path in self._served]
        near, best = max((_nearness(given, each), each) for each in templates)
        if near < _NEAR:
            return ""
        return "/".join(
            name if _is_name(each) else each for name, each in zip(given, best, strict=True)
        )


def _for_operators(method: str, path: str) -> str:
    return (
        f"{method} {path} is for operators, whom this service does not know: it needs admin mode "
        "(serve --admin, or [DEFAULT] admin_mode), or an [auth] strategy."
    )


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"{\w+}", "[^/]+", path))


def _is_name(segment: str) -> bool:
    return segment.startswith("{")


def _nearness(given: Sequence[str], template: Sequence[str]) -> float:
    """Returns how much the segments have in common that differ most, to 1; 0: less than `_NEAR`."""
    if len(given) != len(template):
        return 0
    least = 1.0
    for name, each in zip(given, template, strict=True):
        if not _is_name(each) and each != name:
            if _NEAR * (len(each) + len(name)) > 2 * min(len(each), len(name)):
                return 0  # soon: the ratio of their lengths is a bound
            least = min(least, difflib.SequenceMatcher(None, each, name).ratio())
            if least < _NEAR:
                return 0
    return least
