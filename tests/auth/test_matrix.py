# SPDX-License-Identifier: Apache-2.0
"""Each route, with each strategy, for each role, in the own and in a foreign project."""

from __future__ import annotations

from tests.auth import matrix
from zaqar_redis.auth.policy import PolicyEnforcer


def test_route_that_is_not_public_has_a_rule() -> None:
    rules = set(PolicyEnforcer().rules)
    assert rules
    for route in matrix.rest_routes():
        assert route.public == (route.path in matrix.PUBLIC), route.path
        if not route.public:
            assert route.action in rules, route.path
            assert route.action in matrix.LEAST, route.path
