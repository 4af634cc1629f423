# SPDX-License-Identifier: Apache-2.0
"""Encrypted bodies that are none."""

from __future__ import annotations

import pytest

from zaqar_redis.service.encryption import BodyCipher, WrongEncryptionKey


@pytest.mark.parametrize("size", [0, 1, 7, 12, 28, 100])
def test_body_that_was_not_encrypted_with_the_key_names_the_key(size: int) -> None:
    with pytest.raises(WrongEncryptionKey, match="configured key"):
        BodyCipher("a key for tests").decrypt("project", bytes(size))
