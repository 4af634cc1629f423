# SPDX-License-Identifier: Apache-2.0
"""Access keys in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from zaqar_redis import clock, errors
from zaqar_redis.auth.access_keys import KEYS_MAX, AccessKey
from zaqar_redis.auth.identity import Right
from zaqar_redis.keyspace.control_keys import CONTROL, AccessKeyKeys
from zaqar_redis.keyspace.script import RedisCommand, Script, Steps, verb
from zaqar_redis.records import Page, Record

_CREATE = Script("access_key_create")
_UPDATE = Script("access_key_update")
_USE = Script("access_key_use")
_DELETE = Script("access_key_delete")

#: Milliseconds between two writes of a key's last use.
_USE_INTERVAL = 60_000


class StoredGrants(Record, frozen=True):
    """What never changes in an access key."""

    project: str
    user: str
    roles: tuple[str, ...]
    rights: tuple[Right, ...]
    created: int
    expires: int


class RedisAccessKeys:
    def __init__(self, client: Any, now: clock.Clock) -> None:
        self.client = client
        self._now = now

    @verb
    def create(self, key: AccessKey) -> Steps[None]:
        grants = StoredGrants(
            key.project, key.user, key.roles, key.rights, key.created, key.expires
        )
        created = yield _CREATE(
            AccessKeyKeys(key.id),
            id=key.id,
            most=KEYS_MAX,
            grants=msgspec.msgpack.encode(grants),
            secret=key.sealed_secret,
            disabled=int(key.disabled),
            used=key.last_used,
        )
        if not created:
            raise errors.LimitExceeded(what="access keys", most=KEYS_MAX)

    @verb
    def get(self, key_id: str) -> Steps[AccessKey | None]:
        flat = yield RedisCommand("HGETALL", AccessKeyKeys(key_id).access_key)
        return _key(key_id, flat) if flat else None

    @verb
    def list(self, after: str, limit: int) -> Steps[Page[AccessKey]]:
        ids = yield RedisCommand.page(CONTROL.access_keys, after, limit)
        if not ids:
            return Page(())
        names = [key_id.decode() for key_id in ids]
        found = yield [RedisCommand("HGETALL", AccessKeyKeys(name).access_key) for name in names]
        # Without fields is what was deleted meanwhile, or evicted.
        keys = [_key(name, flat) for name, flat in zip(names, found, strict=True) if flat]
        return Page(keys, marker=names[-1])

    @verb
    def set_secret(self, key_id: str, sealed_secret: bytes) -> Steps[bool]:
        found = yield _UPDATE(AccessKeyKeys(key_id), field="secret", value=sealed_secret)
        return bool(found)

    @verb
    def set_disabled(self, key_id: str, disabled: bool) -> Steps[bool]:
        found = yield _UPDATE(AccessKeyKeys(key_id), field="disabled", value=int(disabled))
        return bool(found)

    @verb
    def record_use(self, key_id: str) -> Steps[None]:
        yield _USE(AccessKeyKeys(key_id), now=self._now(), interval=_USE_INTERVAL)

    @verb
    def delete(self, key_id: str) -> Steps[bool]:
        return bool((yield _DELETE(AccessKeyKeys(key_id), id=key_id)))


def _key(key_id: str, flat: Sequence[bytes]) -> AccessKey:
    stored = dict(zip(flat[::2], flat[1::2], strict=True))
    grants = msgspec.msgpack.decode(stored[b"grants"], type=StoredGrants)
    return AccessKey(
        id=key_id,
        **msgspec.structs.asdict(grants),
        sealed_secret=stored[b"secret"],
        disabled=stored[b"disabled"] == b"1",
        last_used=int(stored[b"used"]),
    )
