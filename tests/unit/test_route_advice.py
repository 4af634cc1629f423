# SPDX-License-Identifier: Apache-2.0
"""What is said of paths and methods that no route has."""

from __future__ import annotations

import pytest

from zaqar_redis.api.exchange import Answer
from zaqar_redis.api.route_advice import RouteAdvice
from zaqar_redis.api.routes import ApiRoute

_QUEUE = "/v2/queues/{queue}"


async def _handler() -> Answer:
    return Answer()


def _route(path: str, method: str = "GET") -> ApiRoute:
    return ApiRoute(method, path, _handler, "some:action")


_SERVED = [
    *map(_route, ("/", "/v2", "/v2/", "/v2/ping", "/v2/queues", _QUEUE, f"{_QUEUE}/messages")),
    *map(_route, (f"{_QUEUE}/stats", f"{_QUEUE}/claims/{{claim}}", "/v2/quotas/{project}")),
]
_OF_OPERATORS = [_route("/v2/quotas/{project}", "PUT"), _route("/v2/health")]
_ADVICE = RouteAdvice(_SERVED, [*_SERVED, *_OF_OPERATORS])


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v2/queue", "/v2/queues"),
        ("/v2/queues/", "/v2/queues"),
        ("/v2/queues//q", "/v2/queues/q"),
        ("/queues", "/v2/queues"),
        ("/v1.1/queues/q", "/v2/queues/q"),
        ("/v1", "/v2"),
        ("/v2/queue/q", "/v2/queues/q"),
        ("/v2/queues/q/message", "/v2/queues/q/messages"),
        ("/v2/Queues/q/claims/c", "/v2/queues/q/claims/c"),
    ],
)
def test_path_near_to_a_route_names_that(path: str, meant: str) -> None:
    assert _ADVICE.of_path("GET", path).endswith(f" at {path}: did you mean {meant}?")


@pytest.mark.parametrize("path", ["/v2/nothing", "/v2/queues/a/b", "/favicon.ico", "/v2/ping/x"])
def test_path_near_to_no_route_names_the_description(path: str) -> None:
    assert _ADVICE.of_path("GET", path).endswith("GET /openapi.json lists what there is.")


@pytest.mark.parametrize(
    ("path", "option"),
    [
        ("/v2/pools/p", "[DEFAULT] pooling"),
        ("/v2/queues/q/pool", "[DEFAULT] pooling"),
        ("/connection/websocket", "[channels] enabled"),
        ("/api/publish", "[channels] enabled"),
        ("/console/", "[console] enabled"),
        ("/metrics", "[metrics] port"),
    ],
)
def test_path_that_needs_an_option_names_it(path: str, option: str) -> None:
    assert option in _ADVICE.of_path("GET", path)


def test_console_without_channels_names_what_its_tickets_need() -> None:
    advice = RouteAdvice([_route("/console/{name}")], ())
    assert "[channels] enabled" in advice.of_lack("/console/token")
    assert advice.of_lack("/console/about") == ""
    with_channels = [_route("/console/{name}"), _route("/console/token")]
    assert RouteAdvice(with_channels, ()).of_lack("/console/token") == ""


def test_path_beside_what_an_option_enables_needs_no_option() -> None:
    advice = RouteAdvice([*_SERVED, _route("/connection/websocket")], ())
    assert advice.of_path("GET", "/connection/websockets").endswith("/connection/websocket?")


def test_method_of_operators_names_admin_mode() -> None:
    assert "--admin" in _ADVICE.of_method("PUT", "/v2/quotas/p", "GET")
    assert "--admin" in _ADVICE.of_path("GET", "/v2/health")
    text = "/v2/quotas/p does not take POST: it takes GET."
    assert _ADVICE.of_method("POST", "/v2/quotas/p", "GET") == text


def test_long_path_is_cut_off() -> None:
    assert len(_ADVICE.of_path("GET", "/v2/" + "x" * 60_000)) < 1000
