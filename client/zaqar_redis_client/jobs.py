# SPDX-License-Identifier: Apache-2.0
"""What the brokers of frameworks share: how an encoded job is posted."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

from zaqar_redis_client.records import DraftFields

#: Seconds that the service takes as a delay; later messages get a time by the client's clock.
LONGEST_DELAY = 900


def delayed(seconds: float) -> DraftFields:
    """Returns the fields of a message that comes after *seconds*, rounded up."""
    whole = max(0, math.ceil(seconds))
    if whole <= LONGEST_DELAY:
        return {"delay": whole}
    return {"deliver_at": datetime.now(UTC) + timedelta(seconds=whole)}


def body_of(data: bytes) -> Any:
    """Returns text, which is legible where messages are shown, or bytes that are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def data_of(body: Any) -> bytes:
    """Returns what was encoded; of a schedule, say, the body may be the document itself."""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()
