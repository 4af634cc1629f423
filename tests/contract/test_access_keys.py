# SPDX-License-Identifier: Apache-2.0
"""What a store of access keys guarantees."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from tests.contract.test_control import ControlStoreHarness
from zaqar_redis import errors
from zaqar_redis.auth import access_keys
from zaqar_redis.auth.access_keys import KEYS_MAX, AccessKey
from zaqar_redis.auth.identity import Right


class KeyStoreHarness(ControlStoreHarness):
    """A control store with short calls for access keys."""

    def create(self, **fields: object) -> AccessKey:
        fields = {"id": access_keys.new_id(), "project": "p", "user": "u"} | fields
        key = msgspec.convert({"roles": ["member"], "sealed_secret": b"\0s"} | fields, AccessKey)
        self.run(self.control.access_keys.create(key))
        return key

    def get(self, key: AccessKey) -> AccessKey | None:
        return self.run(self.control.access_keys.get(key.id))

    def ids(self, after: str = "", limit: int = 100) -> list[str]:
        page = self.run(self.control.access_keys.list(after, limit))
        found = [key.id for key in page.items]
        assert page.marker == (found[-1] if found else "")
        return found

    def use(self, key: AccessKey) -> int:
        """Returns the last use, after one at this time."""
        self.run(self.control.access_keys.record_use(key.id))
        found = self.get(key)
        assert found
        return found.last_used


@pytest.fixture
def keys(control_uri: str) -> Iterator[KeyStoreHarness]:
    with KeyStoreHarness.opened(control_uri) as harness:
        harness.run(harness.client.command("FLUSHDB"))
        yield harness


def test_key_is_stored_as_given(keys: KeyStoreHarness) -> None:
    key = keys.create(
        project="a project/with {signs}",
        user="Zoë",
        roles=["admin", "reader"],
        rights=[Right("orders-*", ("messages:*", "claims:create"))],
        created=1_700_000_000_000,
        expires=1_800_000_000_000,
        sealed_secret=b"\x00\xff\r\n",
    )
    assert keys.get(key) == key
    assert keys.run(keys.control.access_keys.list("", 10)).items == [key]
    assert keys.get(msgspec.structs.replace(key, id=access_keys.new_id())) is None


def test_keys_are_listed_by_id_page_by_page(keys: KeyStoreHarness) -> None:
    ids = sorted(keys.create().id for _ in range(5))
    assert keys.ids() == ids
    assert keys.ids(limit=2) == ids[:2]
    assert keys.ids(after=ids[1], limit=2) == ids[2:4]
    assert keys.ids(after=ids[4]) == []


def test_changes_reach_the_key_and_keep_the_rest(keys: KeyStoreHarness) -> None:
    key, other, store = keys.create(), keys.create(), keys.control.access_keys
    assert keys.run(store.set_disabled(key.id, True))
    assert keys.run(store.set_secret(key.id, b"new"))
    assert keys.get(key) == msgspec.structs.replace(key, disabled=True, sealed_secret=b"new")
    assert keys.run(store.set_disabled(key.id, False))
    assert keys.get(key) == msgspec.structs.replace(key, sealed_secret=b"new")
    assert keys.get(other) == other


def test_deleted_key_is_gone_and_no_change_brings_it_back(keys: KeyStoreHarness) -> None:
    key, other, store = keys.create(), keys.create(), keys.control.access_keys
    assert keys.run(store.delete(key.id))
    assert not keys.run(store.delete(key.id))
    assert not keys.run(store.set_disabled(key.id, False))
    assert not keys.run(store.set_secret(key.id, b"new"))
    keys.run(store.record_use(key.id))
    assert keys.get(key) is None
    assert keys.ids() == [other.id]


def test_last_use_is_written_once_a_minute(keys: KeyStoreHarness) -> None:
    key = keys.create()
    keys.clock.now = 1_700_000_000_000
    assert keys.use(key) == 1_700_000_000_000
    keys.clock.now += 59_999
    assert keys.use(key) == 1_700_000_000_000
    keys.clock.now += 1
    assert keys.use(key) == 1_700_000_060_000


def test_number_of_keys_is_limited(keys: KeyStoreHarness) -> None:
    key = keys.create()
    filler = (part for number in range(KEYS_MAX - 1) for part in (0, f"x{number}"))
    keys.run(keys.client.command("ZADD", b"zr:{control}:access_keys", *filler))
    with pytest.raises(errors.LimitExceeded, match="access keys"):
        keys.create()
    keys.run(keys.control.access_keys.delete(key.id))
    keys.create()
