# SPDX-License-Identifier: Apache-2.0
"""/v2/queues/{queue}/messages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from zaqar_redis import errors, rules
from zaqar_redis.api import decoding, documents, raw_bodies
from zaqar_redis.api.checks import accepts_json
from zaqar_redis.api.exchange import DONE, Answer, Headers, Request
from zaqar_redis.api.queries import (
    HolderQuery,
    MessageDeleteQuery,
    MessageListQuery,
    MessageQuery,
    TopicMessagesQuery,
)
from zaqar_redis.api.schemas import PostIn
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, Verb, verb
from zaqar_redis.records import IdempotencyKey
from zaqar_redis.service.messages import MessageService, missing

ListRequest = Request[MessageListQuery, None] | Request[TopicMessagesQuery, None]

#: W3C Trace Context, of any version whose header is as long as the first one's.
_TRACEPARENT = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class MessageHandlers(ComposedVerbs):
    def __init__(self, messages: MessageService, limits: rules.Limits, checksums: bool) -> None:
        self._messages = messages
        self._limits = limits
        self._checksums = checksums

    @verb
    def post(self, request: Request[None, PostIn], queue: str) -> Steps[Answer]:
        """Posts messages.

        All of them or none, in this order.  Creates the queue if it does not exist.  With another
        content type than JSON the request's body is that of one message, whose other fields are
        parameters.
        """
        posted = yield self._messages.post(
            request.project,
            queue,
            decoding.drafts(
                request.document,
                self._checksums,
                traceparent=_traceparent(request),
            ),
            client=request.client,
            size=len(request.data),
            idempotency_key=self._idempotency_key(request),
        )
        headers: Headers = (("location", self._location(queue, posted.ids)),)
        if posted.replayed:
            headers += (("idempotency-replayed", "true"),)
        return Answer(documents.posted(queue, posted.ids, posted.duplicates), 201, headers)

    def _location(self, queue: str, ids: Sequence[str]) -> str:
        """Returns a path to read all ids at once, or that of all messages when they are too many.

        A header with every id of a large post is longer than HTTP clients accept.
        """
        path = f"{rules.path_of(queue)}/messages"
        return (
            f"{path}?ids={','.join(ids)}"
            if len(ids) <= self._limits.max_messages_per_page
            else path
        )

    def _idempotency_key(self, request: Request[None, PostIn]) -> IdempotencyKey | None:
        key = request.header(b"idempotency-key")
        if key is None:
            return None
        return IdempotencyKey(
            key=rules.idempotency_key(key),
            fingerprint=hashlib.blake2b(request.data, digest_size=16).digest(),
            window=self._limits.idempotency_window * 1000,
        )

    def list(self, request: Request[MessageListQuery, None], queue: str) -> Verb[Answer]:
        """Lists messages, oldest first, or gets some by their ids.

        Without `ids`: a page of what others have posted.  With `ids`: those of them that
        exist, claimed or not; all other parameters are ignored.
        """
        query = request.query
        return self._list(
            request, queue, echo=bool(query.echo), include_claimed=bool(query.include_claimed)
        )

    def history(self, request: Request[TopicMessagesQuery, None], queue: str) -> Verb[Answer]:
        """Lists messages of a topic, whoever has posted them, or gets some by their ids."""
        return self._list(
            request, queue, echo=True, include_claimed=False, reverse=bool(request.query.reverse)
        )

    @verb
    def _list(
        self,
        request: ListRequest,
        queue: str,
        *,
        echo: bool,
        include_claimed: bool,
        reverse: bool = False,
    ) -> Steps[Answer]:
        query = request.query
        if query.ids is not None:
            return (yield from self._by_ids(request, queue, query.ids))
        page = yield self._messages.list(
            request.project,
            queue,
            client=request.client,
            marker=query.marker,
            limit=query.limit,
            echo=echo,
            include_claimed=include_claimed,
            include_delayed=bool(query.include_delayed),
            wait=query.wait,
            watch_disconnect=request.watch_disconnect,
            reverse=reverse,
        )
        if request.span is not None:
            request.span.add_links(page.items)
        links = documents.next_link(request.path, query, page.marker)
        return Answer(documents.message_page(queue, page.items, links, query))

    def _by_ids(self, request: ListRequest, queue: str, ids: Sequence[str]) -> Steps[Answer]:
        found = yield self._messages.get(request.project, queue, ids)
        if not found:
            raise errors.NotFound(why=f"None of these messages is in the {rules.described(queue)}.")
        if request.span is not None:
            request.span.add_links(found)
        return Answer(documents.messages(queue, found, request.query))

    @verb
    def delete_many(self, request: Request[MessageDeleteQuery, None], queue: str) -> Steps[Answer]:
        """Deletes messages by their ids, or pops the oldest.

        Exactly one of `ids` and `pop` must be given.
        """
        ids, pop, claims = request.query.chosen(self._limits)
        if pop is not None:
            popped = yield self._messages.pop(request.project, queue, pop)
            if request.span is not None:
                request.span.add_links(popped)
            return Answer(documents.popped(popped, request.query))
        if request.span is not None:
            request.span.add_links((yield self._messages.get(request.project, queue, ids or [])))
        yield self._messages.delete_many(request.project, queue, ids or [], claims)
        return DONE

    @verb
    def get(self, request: Request[MessageQuery, None], queue: str, message: str) -> Steps[Answer]:
        """Gets a message, claimed or not.

        As JSON, or its body alone, as it was posted: to who does not accept JSON, but
        `application/octet-stream` or the body's `content_type`.
        """
        found = yield self._messages.get(request.project, queue, [message])
        if not found:
            raise missing(message, queue)
        if request.span is not None:
            request.span.add_links(found)
        if not accepts_json(request.headers):
            return raw_bodies.answer(request, found[0])
        return Answer(documents.message(queue, found[0], request.query))

    @verb
    def delete(
        self, request: Request[HolderQuery, None], queue: str, message: str
    ) -> Steps[Answer]:
        """Deletes a message.

        A claimed message is deleted by who claimed it: the `href` of a claimed message has the
        `claim_id` already.
        """
        if request.span is not None:
            request.span.add_links((yield self._messages.get(request.project, queue, [message])))
        yield self._messages.delete(request.project, queue, message, request.query.claim_id)
        return DONE


def _traceparent(request: Request[None, PostIn]) -> str:
    """Returns the span that posts; empty: none, or a header that cannot be read."""
    if request.span is not None:
        return request.span.traceparent
    given = request.header(b"traceparent")
    return given if given is not None and _TRACEPARENT.fullmatch(given) else ""
