# SPDX-License-Identifier: Apache-2.0
"""Access keys on the console's page: those of the project that it shows, for administrators."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from zaqar_redis import clock, errors, rules
from zaqar_redis.api.api_key import ApiKeyChecks
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.console.answers import answer
from zaqar_redis.api.exchange import DONE, Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.auth import access_keys
from zaqar_redis.auth.access_keys import AccessKey, AccessKeys, SecretSeal

#: Keys that are read at once.
_PAGE_SIZE = 500
_DAY_MS = 86_400_000


class _KeyIn(Struct, forbid_unknown_fields=True):
    user: str
    role: Literal["reader", "member", "admin"] = "member"
    #: until it expires; None: never
    days: Annotated[int, Meta(ge=1, le=3650)] | None = None


class _KeyChangeIn(Struct, forbid_unknown_fields=True):
    disabled: bool


class KeyHandlers:
    def __init__(self, keys: AccessKeys, checks: ApiKeyChecks, seal: SecretSeal | None) -> None:
        """*seal*: None: the service has no seal key, and can make no secrets."""
        self._keys = keys
        self._checks = checks
        self._seal = seal

    async def list(self, request: Request[None, None]) -> Answer:
        """The access keys of the project, without their secrets."""
        self._checks.authorize(request, "keys:get_all", "")
        found: list[dict[str, Any]] = []
        page = await self._keys.list("", _PAGE_SIZE)
        while page.marker:
            found += [_shown(key) for key in page.items if key.project == request.project]
            page = await self._keys.list(page.marker, _PAGE_SIZE)
        return answer({"keys": found})

    async def create(self, request: Request[None, _KeyIn]) -> Answer:
        """Creates an access key of the project; its secret is in this answer only."""
        self._checks.authorize(request, "keys:create", "")
        asked = request.document
        self._check_grant(request, (asked.role,))
        now = clock.process()
        key = AccessKey(
            id=access_keys.new_id(),
            project=request.project,
            user=rules.key_user(asked.user),
            roles=(asked.role,),
            created=now,
            expires=now + asked.days * _DAY_MS if asked.days else 0,
        )
        secret, sealed = self._sealed(key)
        await self._keys.create(msgspec.structs.replace(key, sealed_secret=sealed))
        return answer(_secret(key.id, secret), 201)

    async def rotate(self, request: Request[None, None], key: str) -> Answer:
        """Gives an access key another secret, which is in this answer only."""
        found = await self._found(request, "keys:rotate", key)
        self._check_grant(request, found.roles)
        if found.expires and found.expires <= clock.process():
            raise errors.BadRequest(why=f"The access key {key} has expired; create another one.")
        secret, sealed = self._sealed(found)
        if not await self._keys.set_secret(key, sealed):
            raise _no_key(key)
        return answer(_secret(key, secret))

    async def change(self, request: Request[None, _KeyChangeIn], key: str) -> Answer:
        """Disables or enables an access key; services know it after five seconds."""
        await self._found(request, "keys:update", key)
        if not await self._keys.set_disabled(key, request.document.disabled):
            raise _no_key(key)
        return DONE

    async def delete(self, request: Request[None, None], key: str) -> Answer:
        """Deletes an access key; services refuse it after five seconds."""
        await self._found(request, "keys:delete", key)
        await self._keys.delete(key)
        return DONE

    async def _found(self, request: Request[Any, Any], action: str, key_id: str) -> AccessKey:
        """Raises Forbidden, and NotFound for keys of other projects too."""
        self._checks.authorize(request, action, "")
        found = await self._keys.get(key_id) if access_keys.is_key_id(key_id) else None
        if found is None or found.project != request.project:
            raise _no_key(key_id)
        return found

    def _check_grant(self, request: Request[Any, Any], roles: tuple[str, ...]) -> None:
        """Raises Forbidden if the key would allow more than whoever asks may do themselves."""
        identity = request.identity
        if identity.rights or not identity.roles.issuperset(roles):
            raise errors.Forbidden(why="Nobody can give a key more than they may do themselves.")

    def _sealed(self, key: AccessKey) -> tuple[str, bytes]:
        """Returns a new secret, and what the store has of it.  Raises BadRequest."""
        if self._seal is None:
            raise errors.BadRequest(
                why="This service makes no access keys: it needs [auth] strategy = key and "
                "[auth] seal_key."
            )
        secret = access_keys.new_secret()
        return secret, self._seal.seal(key, secret)


def _secret(key_id: str, secret: str) -> dict[str, str]:
    return {"id": key_id, "secret": secret, "token": f"{key_id}.{secret}"}


def _no_key(key_id: str) -> errors.NotFound:
    return errors.NotFound(why=f"There is no access key {key_id} in this project.")


def _shown(key: AccessKey) -> dict[str, Any]:
    """Times are seconds since 1970; None: never."""
    return {
        "id": key.id,
        "user": key.user,
        "roles": key.roles,
        "rights": key.rights,
        "created": key.created / 1000,
        "expires": key.expires / 1000 or None,
        "disabled": key.disabled,
        "last_used": key.last_used / 1000 or None,
    }


def routes(keys: AccessKeys, checks: ApiKeyChecks, seal: SecretSeal | None) -> list[ApiRoute]:
    handlers = KeyHandlers(keys, checks, seal)
    row = checks.route
    new, changed = Body(_KeyIn, "An access key"), Body(_KeyChangeIn, "An access key")
    one = "/console/keys/{key}"
    return [
        row("GET", "/console/keys", handlers.list, "keys:get_all"),
        row("POST", "/console/keys", handlers.create, "keys:create", body=new),
        row("POST", f"{one}/rotate", handlers.rotate, "keys:rotate"),
        row("PATCH", one, handlers.change, "keys:update", body=changed),
        row("DELETE", one, handlers.delete, "keys:delete"),
    ]
