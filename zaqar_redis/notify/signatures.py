# SPDX-License-Identifier: Apache-2.0
"""Signatures of webhooks, by which receivers know who sends them, and when: Standard Webhooks 1.0.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

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
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return f"v1,{base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()}"
