# SPDX-License-Identifier: Apache-2.0
"""What the documents of requests are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from zaqar_redis import errors, retry_policies, rules
from zaqar_redis.api import metadata_schemas
from zaqar_redis.api.exchange import JSON
from zaqar_redis.service import patches

#: The media type of changes of metadata.
PATCH = "application/openstack-messaging-v2.0-json-patch"

#: Bytes of documents without a limit of their own: claims, purges, shares, pools, flavors.
_SMALL = 64 * 1024

#: The attribute that only pools read.
_FLAVOR = "_flavor"


class Body(Struct, frozen=True):
    """The document of a request."""

    #: bytes: it is not decoded
    kind: Any
    #: what errors call it
    noun: str
    #: bytes
    size_max: int = _SMALL
    #: the document of a request without a body; None: it needs one
    default: Any = None
    media_type: str = JSON
    #: what errors say in the place of the decoder, in stock's words, by what is wrong: a value of
    #: another kind ("$.ttl", "$" is the document), a missing field ("ttl"), no document ("")
    texts: Mapping[str, str] = {}
    #: of a document: the names in it that have no effect, though its kind allows them
    ignored: Callable[[Any], Iterable[str]] | None = None
    #: what the query of a request says whose body is no document but the message's; None: it has
    #: no such requests
    raw_query: Any = None
    #: of one that is too large
    error: type[errors.Problem] = errors.BadRequest

    def too_large(self) -> errors.Problem:
        return self.error(why=f"{self.noun} may be at most {self.size_max} bytes a request.")


def metadata_bodies(
    of: str, kind: Any, attributes: Collection[str], limits: rules.Limits
) -> tuple[Body, Body]:
    """Returns the documents that set and that change metadata, with the *attributes* that count."""
    noun, size = f"{of} metadata", limits.max_queue_metadata
    known = {*attributes, _FLAVOR}

    def ignored(values: Mapping[str, Any]) -> Iterator[str]:
        yield from (name for name in values if name.startswith("_") and name not in known)
        yield from retry_policies.ignored(values)

    def ignored_at_creation(values: Mapping[str, Any]) -> Iterator[str]:
        yield from ignored(values)
        if values.get("_max_claim_count") and not values.get("_dead_letter_queue"):
            yield "_max_claim_count"

    def ignored_of_changes(document: Any) -> Iterator[str]:
        changes = patches.read(document)
        yield from ignored({each.key: each.value for each in changes if each.op != "remove"})
        yield from (
            f"[].{name}" for item in document for name in item if name not in patches.FIELDS
        )

    return (
        Body(kind, noun, size, default={}, ignored=ignored_at_creation),
        Body(metadata_schemas.Patches, noun, size, media_type=PATCH, ignored=ignored_of_changes),
    )
