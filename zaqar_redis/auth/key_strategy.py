# SPDX-License-Identifier: Apache-2.0
"""Authentication with access keys: as a token, as user and password, and by signing.

``Authorization: Bearer <id>.<secret>``, ``Authorization: Basic`` with the id as user and the
secret as password, RFC 9421 with the secret as key of HMAC with SHA-256, and tokens of channels
(`tokens`) that are signed with it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import hmac
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Hashable

from zaqar_redis import clock, errors, runner
from zaqar_redis.auth import access_keys, request_signatures
from zaqar_redis.auth.access_keys import AccessKey, AccessKeySettings, AccessKeyStore, SecretSeal
from zaqar_redis.auth.attempts import AttemptLimiter
from zaqar_redis.auth.identity import Identity, Right, with_implied
from zaqar_redis.auth.strategy import (
    AuthRequest,
    CachingStrategy,
    Headers,
    InvalidSignature,
    StrategyContext,
)

LOG = logging.getLogger(__name__)

#: Seconds for which a key is as it was read: what changes then counts within five everywhere,
#: with time for a slow store.
_KEY_TTL = 3.0
#: Milliseconds between two writes of a key's last use.
_USE_INTERVAL = 60_000
#: Identities that a process remembers: some MB.
_IDENTITIES_MAX = 8192
#: Lines that a second of failed attempts writes to the log: guessed ids are endless.
_LOG_LINES_MAX = 10
#: A credential of ours; "emtf" is the prefix "zk_" in base64.
_OURS = re.compile(rb"(?i:Bearer) +zk_|(?i:Basic) +emtf")


class KeyStrategy(CachingStrategy):
    # No Basic: a browser would ask for a password, instead of the page that gets the answer.
    challenge = 'Bearer realm="zaqar-redis"'

    def __init__(self, store: AccessKeyStore, seal: SecretSeal) -> None:
        super().__init__()
        self._store = store
        self._seal = seal
        self._attempts = AttemptLimiter()
        self._tasks: set[asyncio.Task[None]] = set()
        #: a second by the clock of the process, and the lines that were logged in it
        self._logged = (0, 0)

    def identify(self, request: AuthRequest) -> Identity | Awaitable[Identity] | None:
        found = super().identify(request)
        if found is not None:
            if b"signature-input" in request.headers:
                why = "The request has an access key and a signature: send one of them."
                raise errors.Unauthenticated(why=why, challenge=self.challenge)
            return found
        key_id = request_signatures.signing_key_id(request)
        if key_id is None:
            return None
        return self.verify(
            key_id, lambda secret: request_signatures.verify(request, key_id, secret)
        )

    def credential(self, headers: Headers) -> Hashable | None:
        found = headers.get(b"authorization")
        return found if found is not None and _OURS.match(found) else None

    async def authenticate(self, headers: Headers) -> tuple[Identity, float]:
        credential = headers[b"authorization"]
        key_id, given = _parse(credential)
        # Whoever has used the right secret here is not refused because of others.
        if credential not in self._known:
            self._check_attempts(key_id)
        until = time.monotonic() + _KEY_TTL
        key, secret = await self._read(key_id)
        if key is None or not hmac.compare_digest(given.encode(), secret.encode()):
            raise self._failed(key_id, "There is no access key with this id and secret.")
        identity, seconds = self._identity(key), until - time.monotonic()
        if key.expires:
            seconds = min(seconds, (key.expires - clock.process()) / 1000)
        return identity, seconds

    async def verify(self, key_id: str, check: Callable[[str], Awaitable[None]]) -> Identity:
        """Returns whose key it is that has signed what *check* checks.

        *check* gets the key's secret; it raises InvalidSignature, and what else goes on to the
        caller.  Raises Unauthenticated, TooManyAttempts, StoreUnavailable.
        """
        self._check_attempts(key_id)
        key, secret = await self._read(key_id)
        try:
            await check(secret)
        except InvalidSignature as error:
            why = f": {error}" if str(error) else ""
            raise self._failed(key_id, f"The signature is not valid{why}.") from None
        if key is None:  # nobody knows the secret then
            raise self._failed(key_id, "The signature is not valid.")
        return self._identity(key)

    async def _read(self, key_id: str) -> tuple[AccessKey | None, str]:
        """Returns the key and its secret, or None and one that nobody knows."""
        key = await self._store.access_keys.get(key_id)
        if key is not None:
            try:
                return key, self._seal.unseal(key)
            except access_keys.WrongSealKey:
                self._log(
                    "the access key %s cannot be used: it was created with another [auth] "
                    "seal_key, or changed in the store; look at it, then rotate or delete it",
                    key_id,
                )
        return None, access_keys.new_secret()

    def _identity(self, key: AccessKey) -> Identity:
        """Returns whose key it is.

        Raises Unauthenticated when it must not be used any more.
        """
        now = clock.process()
        if key.disabled:
            raise self._refused("The access key is disabled.")
        if key.expires and key.expires <= now:
            raise self._refused("The access key has expired.")
        if now - key.last_used >= _USE_INTERVAL:
            self._record_use(key.id)
        return _identity(key.id, key.project, key.user, key.roles, key.rights)

    def _record_use(self, key_id: str) -> None:
        task = asyncio.create_task(self._write_use(key_id), name="access key use")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_use(self, key_id: str) -> None:
        try:
            await self._store.access_keys.record_use(key_id)
        except errors.Unavailable as error:
            LOG.info("the use of a key was not stored: %s", errors.reason(error))

    def _check_attempts(self, key_id: str) -> None:
        if seconds := self._attempts.refusal(key_id):
            raise errors.TooManyAttempts(seconds=math.ceil(seconds))

    def _failed(self, key_id: str, why: str) -> errors.Unauthenticated:
        count = self._attempts.add_failure(key_id)
        self._log(
            "failed attempt %d to use the access key %s",
            count,
            key_id,
            always=self._attempts.refusal(key_id) > 0,
        )
        return self._refused(why)

    def _refused(self, why: str) -> errors.Unauthenticated:
        return errors.Unauthenticated(why=why, challenge=self.challenge)

    def _log(self, text: str, *arguments: object, always: bool = False) -> None:
        """Logs a line, unless there were many in this second already."""
        second, lines = int(time.monotonic()), 0
        if self._logged[0] == second:
            lines = self._logged[1]
        self._logged = second, lines + 1
        if always or lines < _LOG_LINES_MAX:
            LOG.warning(text, *arguments, extra={"action": "auth_failed"})

    async def start(self) -> None:
        await self._store.start()

    async def close(self) -> None:
        await runner.cancel(*self._tasks)
        await self._store.close()


@functools.lru_cache(_IDENTITIES_MAX)
def _identity(
    key_id: str, project: str, user: str, roles: tuple[str, ...], rights: tuple[Right, ...]
) -> Identity:
    """Returns the same object for the same key: the policy remembers it."""
    implied = with_implied(frozenset(roles))
    return Identity(project, user, implied, rights, strategy="key", credential=key_id)


def _parse(authorization: bytes) -> tuple[str, str]:
    """Returns key id and secret.  Raises Unauthenticated when they have another form."""
    scheme, _, credential = authorization.decode("latin-1").partition(" ")
    text, separator = credential.strip(), "."
    if scheme.lower() == "basic":
        separator = ":"
        try:
            text = base64.b64decode(text, validate=True).decode("latin-1")
        except binascii.Error:
            text = ""
    key_id, found, secret = text.partition(separator)
    if not (found and access_keys.is_key_id(key_id)):
        raise errors.Unauthenticated(
            why="The credential of an access key is its id and its secret.",
            challenge=KeyStrategy.challenge,
        )
    return key_id, secret


def create(context: StrategyContext) -> KeyStrategy:
    """Creates the strategy.  Raises BadConfiguration without a seal key."""
    seal = SecretSeal(context.settings(AccessKeySettings))
    return KeyStrategy(context.access_keys(), seal)
