# SPDX-License-Identifier: Apache-2.0
"""Access keys: credentials that the operator gives to programs and people."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Awaitable
from hashlib import sha256
from typing import Annotated, Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from zaqar_redis import errors, rules
from zaqar_redis.auth.identity import Right
from zaqar_redis.records import Page, Record

#: What ids of keys begin with, so that no other credential is taken for one.
ID_PREFIX = "zk_"
#: An id, in headers and log lines.
ID_PATTERN = r"zk_[0-9a-f]{20}"
_ID = re.compile(ID_PATTERN)
#: Random bytes of an id, and of a secret: those of a key for HMAC with SHA-256.
_ID_BYTES, _SECRET_BYTES = 10, 32
#: What NIST SP 800-38D recommends for GCM.
_NONCE = 12
#: Fewer characters could be guessed, even if they were random.
_SEAL_KEY_MIN = 16
#: Most keys of an installation: some 10 MB in the control store.
KEYS_MAX = 10_000


class AccessKeySettings(Struct, frozen=True):
    seal_key: Annotated[
        str | None,
        rules.SECRET,
        "Key that encrypts the secrets of access keys (AES-256-GCM) in the control store. The "
        'strategy "key" and the commands that create and rotate keys need it, and all of them the '
        "same. Create one with: openssl rand -base64 32",
    ] = None


class AccessKey(Record, frozen=True):
    """A credential: whoever knows its secret is *user* in *project*, with these roles."""

    id: str
    project: str
    #: the person or program that uses it
    user: str
    #: in order of name
    roles: tuple[str, ...]
    #: restrict what the roles allow; empty: they do not
    rights: tuple[Right, ...] = ()
    created: int = 0
    #: 0: never
    expires: int = 0
    #: as `SecretSeal` returns it
    sealed_secret: bytes = b""
    disabled: bool = False
    #: late by a minute at most; 0: never
    last_used: int = 0


class AccessKeys(Protocol):
    """The access keys of an installation.

    Each method but `list` is one atomic step.  Every method may raise `errors.StoreUnavailable`
    or `errors.Overloaded`.
    """

    def create(self, key: AccessKey) -> Awaitable[None]:
        """Stores a new key.  Raises LimitExceeded when there are `KEYS_MAX`."""

    def get(self, key_id: str) -> Awaitable[AccessKey | None]:
        """Returns the key, or None."""

    def list(self, after: str, limit: int) -> Awaitable[Page[AccessKey]]:
        """Returns at most *limit* keys behind a marker, in order of id."""

    def set_secret(self, key_id: str, sealed_secret: bytes) -> Awaitable[bool]:
        """Replaces the secret; returns False when there is no such key."""

    def set_disabled(self, key_id: str, disabled: bool) -> Awaitable[bool]:
        """Disables or enables the key; returns False when there is no such key."""

    def record_use(self, key_id: str) -> Awaitable[None]:
        """Sets the last use to now, unless it is less than a minute ago."""

    def delete(self, key_id: str) -> Awaitable[bool]:
        """Deletes the key; returns False when there is no such key."""


class AccessKeyStore(Protocol):
    """A store that has access keys; control stores are."""

    @property
    def access_keys(self) -> AccessKeys: ...

    async def start(self) -> None:
        """Connects.  Does not fail when the store is unreachable: its calls do."""

    async def close(self) -> None:
        """Closes every connection."""


class WrongSealKey(Exception):
    """The secret was sealed with another key, or what the access key grants was changed."""


class SecretSeal:
    """Encrypts secrets: to verify signatures the service needs them, and not only digests.

    AES-256-GCM with a random nonce, bound to what the access key grants: whoever can write to the
    store, but does not have the seal key, can give nobody more than the operator did.
    """

    def __init__(self, settings: AccessKeySettings) -> None:
        """Raises BadConfiguration without a seal key."""
        if not settings.seal_key:
            raise errors.BadConfiguration(
                "[auth] seal_key: access keys need it; create one with openssl rand -base64 32, "
                "and set it in the configuration of all services and of the commands"
            )
        if len(settings.seal_key) < _SEAL_KEY_MIN:
            raise errors.BadConfiguration(
                f"[auth] seal_key: it must have at least {_SEAL_KEY_MIN} characters; create one "
                "with openssl rand -base64 32"
            )
        self._cipher = AESGCM(sha256(settings.seal_key.encode()).digest())

    def seal(self, key: AccessKey, secret: str) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, secret.encode(), _grants(key))

    def unseal(self, key: AccessKey) -> str:
        """Returns the key's secret.  Raises WrongSealKey."""
        sealed = key.sealed_secret
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], _grants(key)).decode()
        except (InvalidTag, ValueError):  # ValueError: too short for a nonce
            raise WrongSealKey from None

    def fits(self, key: AccessKey) -> bool:
        """Returns whether it can unseal the key's secret."""
        try:
            self.unseal(key)
        except WrongSealKey:
            return False
        return True


def new_id() -> str:
    return ID_PREFIX + secrets.token_hex(_ID_BYTES)


def new_secret() -> str:
    """Returns a random text for URLs and headers."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def is_key_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def _grants(key: AccessKey) -> bytes:
    """Returns what never changes in a key."""
    return msgspec.msgpack.encode(
        (key.id, key.project, key.user, key.roles, key.rights, key.created, key.expires)
    )
