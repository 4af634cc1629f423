# SPDX-License-Identifier: Apache-2.0
"""What the shapes of documents and queries say to those who read the API's description."""

from __future__ import annotations

from typing import Any

from msgspec import Meta

from zaqar_redis import rules


def about(text: str | None = None, /, **keywords: Any) -> Meta:
    """Returns a description, with keywords of JSON Schema.

    ``limits.NAME`` stands for the operator's limit of that name, in texts too.  Nothing is checked
    by it: `zaqar_redis.rules` does that, with errors that name the limit.
    """
    return Meta(description=text, extra_json_schema=keywords)


TTL = {"minimum": rules.TTL_MIN, "maximum": "limits.max_message_ttl"}
DELAY = {"minimum": 0, "maximum": "limits.max_message_delay"}
