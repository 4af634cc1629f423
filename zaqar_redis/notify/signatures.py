# SPDX-License-Identifier: Apache-2.0
"""Signatures of webhooks, by which receivers know who sends them, and when: Standard Webhooks 1.0.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from functools import lru_cache

_PREFIX = "whsec_"


def signed_headers(secrets: Sequence[str], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Returns the headers of a webhook: one signature for each secret.

    *id*: the same in each attempt, so that receivers recognise a repetition.  *timestamp*: of the
    attempt, in seconds.  Without secrets there is no signature.
    """
    headers = {"webhook-id": id, "webhook-timestamp": str(timestamp)}
    if secrets:
        # Spec: "the id, timestamp, and payload", joined by full stops
        content = f"{id}.{timestamp}.".encode() + body
        headers["webhook-signature"] = " ".join(_signature(each, content) for each in secrets)
    return headers


def _signature(secret: str, content: bytes) -> str:
    digest = hmac.digest(_key(secret), content, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


@lru_cache(maxsize=1024)
def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(_PREFIX))
