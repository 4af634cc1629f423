# SPDX-License-Identifier: Apache-2.0
"""Writing the JSON documents of the v2 API; their shapes are in `schemas`."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import quote_plus

import msgspec

from zaqar_redis import message_fields, rules
from zaqar_redis.api import schemas
from zaqar_redis.api.schemas import AttributesOut, LinkOut, MessageOut
from zaqar_redis.api.subscription_schemas import (
    DeliveriesOut,
    DeliveryFailureOut,
    SubscriptionOut,
)
from zaqar_redis.records import (
    Attributes,
    Claim,
    Message,
    PartialPage,
    Stats,
    Subscription,
)
from zaqar_redis.service import subscription_options
from zaqar_redis.storage.deliveries import DeliveryState

encode = msgspec.json.Encoder().encode


class MessageDetails(Protocol):
    """What a client wants to see of messages, beyond what stock Zaqar shows."""

    @property
    def detailed(self) -> bool | None: ...

    @property
    def with_attributes(self) -> bool | None: ...


def posted(queue: str, ids: Sequence[str], duplicates: Sequence[int]) -> bytes:
    base = f"{rules.path_of(queue)}/messages/"
    return encode(schemas.PostedOut([base + id for id in ids], list(duplicates) or msgspec.UNSET))


def message(queue: str, record: Message, wanted: MessageDetails) -> bytes:
    return encode(shown_message(queue, record, wanted))


def shown_message(queue: str, record: Message, wanted: MessageDetails) -> MessageOut:
    return _message(f"{rules.path_of(queue)}/messages/", record, wanted)


def messages(queue: str, records: Sequence[Message], wanted: MessageDetails) -> bytes:
    return encode(schemas.MessagePageOut(_messages(queue, records, wanted)))


def message_page(
    queue: str, records: Sequence[Message], links: list[LinkOut], wanted: MessageDetails
) -> bytes:
    return encode(schemas.MessagePageOut(_messages(queue, records, wanted), links))


def popped(records: Sequence[Message], wanted: MessageDetails) -> bytes:
    shown = [
        schemas.PoppedMessageOut(
            id=record.id,
            ttl=record.ttl,
            age=record.age,
            body=msgspec.Raw(record.body),
            claim_id=None,
            claim_count=record.claim_count,
            checksum=_shown_checksum(record),
            **shown_fields(record, wanted),
        )
        for record in records
    ]
    return encode(schemas.PoppedOut(shown))


def claimed(queue: str, record: Claim, wanted: MessageDetails) -> bytes:
    href = f"/v2/queues/{queue}/claims/{record.id}"
    held = _messages(queue, record.messages, wanted)
    return encode(schemas.ClaimOut(record.age, record.ttl, held, href))


def renewed(ids: Sequence[str], done: Sequence[str]) -> schemas.RenewedOut:
    return schemas.RenewedOut(list(done), _others(ids, done))


def released(ids: Sequence[str] | None, done: Sequence[str]) -> schemas.ReleasedOut:
    return schemas.ReleasedOut(list(done), _others(ids or (), done))


def _others(ids: Sequence[str], done: Sequence[str]) -> list[str]:
    known = {*done}
    return [each for each in ids if each not in known]


def stats(queue: str, record: Stats, detailed: bool) -> schemas.StatsOut:
    counts = schemas.CountsOut(record.claimed, record.free, record.total)
    if record.oldest is not None and record.newest is not None:
        counts.oldest, counts.newest = _end(queue, record.oldest), _end(queue, record.newest)
    # Stock's clients neither know nor create idempotency records.
    document = schemas.StatsOut(counts, record.idempotency_records or msgspec.UNSET)
    if detailed:
        counts.delayed = record.delayed
        document.counters = msgspec.convert(
            record.counters, schemas.CountersOut, from_attributes=True
        )
    return document


def _end(queue: str, end: Message) -> schemas.EndOut:
    return schemas.EndOut(f"{rules.path_of(queue)}/messages/{end.id}", end.age, iso(end.created))


def queue_page(
    page: PartialPage,
    shown: Sequence[dict[str, Any]] | None,
    stats_of: Mapping[str, Stats],
    links: list[LinkOut],
    count: int | None,
    *,
    partial: bool,
) -> bytes:
    """*shown*: the metadata of each queue."""
    items = [schemas.QueueOut(record.name, f"/v2/queues/{record.name}") for record in page.items]
    if shown is not None:
        for item, attributes in zip(items, shown, strict=True):
            item.metadata = attributes
    for item, record in zip(items, page.items, strict=True):
        if record.unavailable:
            item.unavailable, item.metadata = record.unavailable, msgspec.UNSET
        elif record.name in stats_of:
            item.stats = stats(record.name, stats_of[record.name], detailed=True)
    unavailable = list(page.unavailable) if partial else msgspec.UNSET
    return encode(schemas.QueuePageOut(items, links, count or msgspec.UNSET, unavailable))


def subscription(record: Subscription, state: DeliveryState | None = None) -> SubscriptionOut:
    return SubscriptionOut(
        id=record.id,
        source=record.source.removeprefix(rules.TOPIC_PREFIX),
        subscriber=record.subscriber,
        ttl=record.ttl,
        age=record.age,
        options=subscription_options.shown(record.options, detailed=state is not None),
        confirmed=record.confirmed or rules.is_own_subscriber(record.subscriber),
        paused=record.paused or msgspec.UNSET,
        deliveries=msgspec.UNSET if state is None else _deliveries(state),
    )


def _deliveries(state: DeliveryState) -> DeliveriesOut:
    failure = None
    if state.failed_at:
        failure = DeliveryFailureOut(iso(state.failed_at), state.status, state.error)
    counts = state.delivered, state.failed, state.retried, state.pending
    since = iso(state.failing_since) if state.failing_since else None
    return DeliveriesOut(*counts, failure, since)


def topic_page(
    page: PartialPage, shown: Sequence[dict[str, Any]] | None, links: list[LinkOut]
) -> bytes:
    """*shown*: the metadata of each topic."""
    items = [
        schemas.TopicOut(record.name.removeprefix(rules.TOPIC_PREFIX), rules.path_of(record.name))
        for record in page.items
    ]
    if shown is not None:
        for item, attributes in zip(items, shown, strict=True):
            item.metadata = attributes
    return encode(schemas.TopicPageOut(items, links))


def next_link(path: str, query: msgspec.Struct, marker: str) -> list[LinkOut]:
    """Returns the link to the next page.  API: with the parameters of the request."""
    if not marker:
        return []
    given = msgspec.structs.asdict(query)
    given["marker"] = marker
    given.pop("wait", None)
    for name, value in given.pop("filters", {}).items():
        given[quote_plus(name)] = value
    parameters = "&".join(
        [f"{name}={_written(value)}" for name, value in given.items() if value is not None]
    )
    return [LinkOut("next", f"{path}?{parameters}")]


def _written(value: str | int | bool) -> str:
    if isinstance(value, str):
        return quote_plus(value)
    return str(value).lower()  # true and false, not True and False


def _messages(queue: str, records: Sequence[Message], wanted: MessageDetails) -> list[MessageOut]:
    base = f"{rules.path_of(queue)}/messages/"
    return [_message(base, record, wanted) for record in records]


def _message(base: str, record: Message, wanted: MessageDetails) -> MessageOut:
    href = base + record.id
    if record.claim_id is not None:
        href = f"{href}?claim_id={record.claim_id}"
    return MessageOut(
        record.id,
        href,
        record.ttl,
        record.age,
        msgspec.Raw(record.body),
        _shown_checksum(record) if record.checksum else msgspec.UNSET,
        record.claim_count if wanted.detailed else msgspec.UNSET,
        **(shown_fields(record, wanted) if record.attributes or wanted.detailed else {}),
    )


def _shown_checksum(record: Message) -> str | msgspec.UnsetType:
    return f"MD5:{record.checksum.hex()}" if record.checksum else msgspec.UNSET


def shown_fields(record: Message, wanted: MessageDetails) -> dict[str, Any]:
    """Returns the fields of a message that only some have, and its attributes."""
    found = message_fields.shown(record.attributes or {})
    if wanted.with_attributes:
        found["attributes"] = attribute_values(record.attributes)
    if wanted.detailed and (first_claimed := record.first_claimed):
        found["first_claimed"] = iso(first_claimed)
        if record.reason:
            found["reason"] = record.reason
    return found


def attribute_values(attributes: Attributes | None) -> AttributesOut:
    """Returns attributes as documents have them, without fields; unset: there are none."""
    if not attributes:
        return msgspec.UNSET
    shown = {
        name: schemas.BinaryOut(base64.b64encode(value).decode())
        if isinstance(value, bytes)
        else value
        for name, value in attributes.items()
        if name not in message_fields.FIELDS
    }
    return shown or msgspec.UNSET


@lru_cache  # messages of a claim have the same time
def iso(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
