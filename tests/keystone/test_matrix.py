# SPDX-License-Identifier: Apache-2.0
"""Each route for each role of Keystone, in the own and in a foreign project."""

from __future__ import annotations

import pytest

from tests.auth import matrix
from tests.auth.matrix import Caller
from tests.support import servers
from tests.support.keystone import RunningKeystone

ROUTES = matrix.all_routes()
#: Of roles that users are not named after.
_USERS = {"admin": "operator"}


class TokenCaller(Caller):
    """Callers with tokens of Keystone."""

    def __init__(self, url: str, keystone: RunningKeystone) -> None:
        super().__init__(url, keystone.projects["blue"])
        self._tokens = {role: keystone.token(_USERS.get(role, role)) for role in matrix.ROLES}

    def credential(self, role: str) -> dict[str, str]:
        return {"X-Auth-Token": self._tokens[role]}


@pytest.mark.parametrize("foreign", [False, True], ids=["own", "foreign"])
@pytest.mark.parametrize("role", matrix.ROLES)
def test_role_of_keystone_may_do_what_the_policy_says_and_nothing_else(
    keystone: RunningKeystone, beside: servers.RunningService, role: str, foreign: bool
) -> None:
    caller = TokenCaller(beside.url, keystone)
    assert matrix.unexpected(caller, ROUTES, role, foreign=foreign) == []
