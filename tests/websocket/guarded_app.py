# SPDX-License-Identifier: Apache-2.0
"""The application with a strategy of its own, for gunicorn: tokens are files of a folder."""

from __future__ import annotations

import os
from collections.abc import Hashable
from pathlib import Path

from zaqar_redis import errors
from zaqar_redis.api.app import App
from zaqar_redis.api.composition import ServiceParts, compose
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.auth.access import Access
from zaqar_redis.auth.identity import Identity, with_implied
from zaqar_redis.auth.policy import PolicyEnforcer
from zaqar_redis.auth.strategy import Authenticator, CachingStrategy, Headers
from zaqar_redis.storage.redis import create

#: Environment variables: the URI of the store, and the folder.
STORE, TOKENS = "ZAQAR_REDIS_TEST_STORE", "ZAQAR_REDIS_TEST_TOKENS"
SIGNING_KEY = "signing key"
#: The project of a token that nobody can check at the moment.
UNKNOWN = "unknown"


class FileStrategy(CachingStrategy):
    """Knows a token from the file of its name: a project, and roles."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def credential(self, headers: Headers) -> Hashable | None:
        return headers.get(b"x-auth-token") or headers.get(b"authorization")

    async def authenticate(self, headers: Headers) -> tuple[Identity, float]:
        token = (headers.get(b"x-auth-token") or headers[b"authorization"]).decode()
        try:
            project, *roles = (self._folder / Path(token).name).read_text().split()
        except FileNotFoundError:
            raise errors.Unauthenticated(why="unknown token", challenge="") from None
        if project == UNKNOWN:
            raise errors.Unavailable(why="nobody can tell")
        return Identity(project, token, with_implied(frozenset(roles)), strategy="file"), 0.1


def app() -> App:
    authenticator = Authenticator([FileStrategy(Path(os.environ[TOKENS]))])
    access = Access(authenticator, PolicyEnforcer(), has_admins=False)
    parts = ServiceParts(create(os.environ[STORE], {}), access)
    return App(compose(ApiSettings(signing_key=SIGNING_KEY), parts))
