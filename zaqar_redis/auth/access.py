# SPDX-License-Identifier: Apache-2.0
"""Who may use the service: the strategies of an installation, and its policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stevedore import DriverManager
from stevedore.exception import NoMatches

from zaqar_redis import errors
from zaqar_redis.auth.identity import NONE
from zaqar_redis.auth.none import NoneStrategy
from zaqar_redis.auth.policy import PolicyEnforcer
from zaqar_redis.auth.strategy import Authenticator, AuthStrategy, StrategyContext

#: Entry points: strategies by name.  Each is a function of a `StrategyContext`.
NAMESPACE = "zaqar_redis.auth"


class Access(NamedTuple):
    authenticator: Authenticator
    policy: PolicyEnforcer
    #: whether there are administrators
    has_admins: bool


def open_access(*, is_admin: bool = False, user: str = "") -> Access:
    """Returns the access of everybody, who is *user*; *is_admin*: as an administrator."""
    authenticator = Authenticator([NoneStrategy(is_admin, user)], is_open=True)
    return Access(authenticator, PolicyEnforcer(), is_admin)


def create(name: str, context: StrategyContext) -> AuthStrategy:
    """Returns the strategy of that name.  Raises BadConfiguration."""
    try:
        manager: Any = DriverManager(NAMESPACE, name)
    except NoMatches:
        raise errors.BadConfiguration(f'[auth] strategy: there is no strategy "{name}"') from None
    strategy: AuthStrategy = manager.driver(context)
    return strategy


def load(names: Sequence[str], context: StrategyContext) -> Access:
    """Returns the access with these strategies.  Raises BadConfiguration."""
    strategies = [create(name, context) for name in names]
    is_open = NONE in names  # then it is the only one
    has_admins = context.conf.admin_mode or not is_open
    authenticator = Authenticator(strategies, is_open=is_open)
    return Access(authenticator, PolicyEnforcer(context.conf), has_admins)
