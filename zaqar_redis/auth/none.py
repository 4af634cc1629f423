# SPDX-License-Identifier: Apache-2.0
"""No authentication: everybody is a member of the project that a request names."""

from __future__ import annotations

import functools

from zaqar_redis.auth.identity import ADMIN, MEMBER, NONE, Identity, with_implied
from zaqar_redis.auth.strategy import AuthRequest, StrategyContext, project_header

#: Identities that a process remembers: some MB.
_IDENTITIES_MAX = 8192


class NoneStrategy:
    challenge = ""

    def __init__(self, is_admin: bool, user: str = "") -> None:
        """*is_admin*: everybody is an administrator, too.  *user*: who everybody is."""
        self._user = user
        self._roles = with_implied(frozenset((ADMIN if is_admin else MEMBER,)))
        self._identity = functools.lru_cache(_IDENTITIES_MAX)(self._create)

    def identify(self, request: AuthRequest) -> Identity:
        return self._identity(project_header(request.headers))

    def _create(self, project: bytes | None) -> Identity:
        return Identity(
            project=(project or b"").decode("latin-1"),
            user=self._user,
            roles=self._roles,
            strategy=NONE,
        )

    async def start(self) -> None:
        """Does nothing."""

    async def close(self) -> None:
        """Does nothing."""


def create(context: StrategyContext) -> NoneStrategy:
    """Creates the strategy; with admin_mode everybody is an administrator."""
    return NoneStrategy(is_admin=context.conf.admin_mode)
