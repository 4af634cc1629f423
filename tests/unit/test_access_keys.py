# SPDX-License-Identifier: Apache-2.0
"""Secrets of access keys: how they are made and sealed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from zaqar_redis import errors
from zaqar_redis.auth import access_keys
from zaqar_redis.auth.access_keys import AccessKey, AccessKeySettings, SecretSeal, WrongSealKey
from zaqar_redis.auth.identity import Right

KEY = AccessKey(id=access_keys.new_id(), project="p", user="u", roles=("member",), expires=7)
SEAL = SecretSeal(AccessKeySettings("a seal key, for these tests only"))


def sealed(key: AccessKey, secret: str = "the secret") -> AccessKey:
    return msgspec.structs.replace(key, sealed_secret=SEAL.seal(key, secret))


def test_sealed_secret_is_returned_and_does_not_show() -> None:
    key = sealed(KEY)
    assert SEAL.unseal(key) == "the secret"
    assert b"secret" not in key.sealed_secret
    assert sealed(KEY).sealed_secret != key.sealed_secret


def test_another_seal_key_does_not_unseal() -> None:
    with pytest.raises(WrongSealKey):
        SecretSeal(AccessKeySettings("another, for these tests only")).unseal(sealed(KEY))


@pytest.mark.parametrize("value", [b"", b"short", b"x" * 60])
def test_what_was_not_sealed_is_refused(value: bytes) -> None:
    with pytest.raises(WrongSealKey):
        SEAL.unseal(msgspec.structs.replace(KEY, sealed_secret=value))


@pytest.mark.parametrize(
    "change",
    [
        *({"id": access_keys.new_id()}, {"project": "another"}, {"user": "another"}),
        *({"roles": ("admin",)}, {"rights": (Right("*", ("*",)),)}, {"expires": 0}),
    ],
    ids=lambda change: next(iter(change)),
)
def test_secret_is_bound_to_what_the_key_grants(change: dict[str, Any]) -> None:
    with pytest.raises(WrongSealKey):
        SEAL.unseal(msgspec.structs.replace(sealed(KEY), **change))


def test_use_and_disabling_keep_the_secret() -> None:
    used = msgspec.structs.replace(sealed(KEY), last_used=8, disabled=True)
    assert SEAL.unseal(used) == "the secret"


def test_seal_without_key_is_refused() -> None:
    with pytest.raises(errors.BadConfiguration, match="seal_key"):
        SecretSeal(AccessKeySettings())


def test_ids_and_secrets_are_random_and_fit_headers_and_urls() -> None:
    ids = {access_keys.new_id() for _ in range(100)}
    secrets = {access_keys.new_secret() for _ in range(100)}
    assert len(ids) == len(secrets) == 100
    assert all(access_keys.is_key_id(each) for each in ids)
    assert all(
        len(each) >= 43 and each.replace("-", "").replace("_", "").isalnum() for each in secrets
    )
    for wrong in ("", "zk_", "zk_0123456789ABCDEF0123", f"{KEY.id}0", f"{KEY.id}\n"):
        assert not access_keys.is_key_id(wrong)
