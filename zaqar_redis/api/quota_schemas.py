# SPDX-License-Identifier: Apache-2.0
"""The shapes of the JSON documents of quotas: what a project may use, and uses."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from zaqar_redis import rules
from zaqar_redis.api.schemas import Count, Document, Links, Path, about

_LIMIT = {"minimum": -1, "maximum": rules.INTEGER_MAX}


class QuotaIn(Struct, forbid_unknown_fields=True):
    """What is not given is as the service's options say."""

    requests: Annotated[int | None, about("A second.", **_LIMIT)] = None
    queues: Annotated[int | None, about(**_LIMIT)] = None
    messages: Annotated[int | None, about(**_LIMIT)] = None
    bytes: Annotated[int | None, about("Of stored messages.", **_LIMIT)] = None
    sockets: Annotated[
        int | None, about("Open connections of channels and WebSockets.", **_LIMIT)
    ] = None


class UsageOut(Document):
    """Measured some seconds ago."""

    queues: Count
    messages: Count
    bytes: Count
    sockets: Count


class QuotaOut(Document):
    """-1: without limit."""

    project: str
    href: Path
    requests: int
    queues: int
    messages: int
    bytes: int
    sockets: int
    usage: UsageOut | UnsetType = UNSET


class QuotaPageOut(Document):
    quotas: list[QuotaOut]
    links: Links
