# SPDX-License-Identifier: Apache-2.0
"""Encryption of message bodies at rest, for queues that ask for it.

AES-256-GCM with a random nonce, bound to the project: a body cannot be changed,
nor moved to another project, without its decryption failing.
"""

from __future__ import annotations

import os
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from zaqar_redis import errors

#: What NIST SP 800-38D recommends for GCM.
_NONCE = 12


class WrongEncryptionKey(errors.Problem):
    message = "The message cannot be decrypted with the configured key."
    code = 1010


class BodyCipher:
    """Encrypts and decrypts bodies with the operator's key."""

    def __init__(self, key: str) -> None:
        self._cipher = AESGCM(sha256(key.encode()).digest())

    def encrypt(self, project: str, body: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, body, project.encode())

    def decrypt(self, project: str, encrypted: bytes) -> bytes:
        """Raises WrongEncryptionKey."""
        try:
            return self._cipher.decrypt(encrypted[:_NONCE], encrypted[_NONCE:], project.encode())
        except (InvalidTag, ValueError):  # ValueError: too short for a nonce
            raise WrongEncryptionKey from None
