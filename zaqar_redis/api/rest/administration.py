# SPDX-License-Identifier: Apache-2.0
"""/v2/queues/{queue}/peek, …/move and the list of …/claims, for operators."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from zaqar_redis.api import documents
from zaqar_redis.api import operator_schemas as schemas
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.operator_schemas import ClaimListQuery, MoveIn, PeekQuery
from zaqar_redis.api.queries import MessageQuery
from zaqar_redis.auth.policy import PolicyEnforcer
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import PeekedMessage
from zaqar_redis.service.administration import AdministrationService

#: What a look shows of each message.
_ALL = MessageQuery(detailed=True, with_attributes=True)


class AdministrationHandlers(ComposedVerbs):
    def __init__(self, administration: AdministrationService, policy: PolicyEnforcer) -> None:
        self._administration = administration
        self._policy = policy

    @verb
    def peek(self, request: Request[PeekQuery, None], queue: str) -> Steps[Answer]:
        """Shows messages of any state, oldest first, and changes nothing.

        Each with its state, the claim that holds it and the client of that, or the end of its
        delay, how often it was claimed, and the queue that a dead letter came from.  A request
        looks at a bounded number of messages: follow the link until there is none.
        """
        query = request.query
        page = yield self._administration.peek(
            request.project,
            queue,
            state=query.state,
            marker=query.marker,
            limit=query.limit,
            contains=query.contains,
        )
        links = documents.next_link(request.path, query, page.marker)
        items = [_peeked(queue, each) for each in page.items]
        return Answer(documents.encode(schemas.PeekPageOut(items, links)))

    @verb
    def list_claims(self, request: Request[ClaimListQuery, None], queue: str) -> Steps[Answer]:
        """Lists the live claims that hold messages, those that end first."""
        page = yield self._administration.list_claims(
            request.project, queue, marker=request.query.marker, limit=request.query.limit
        )
        links = documents.next_link(request.path, request.query, page.marker)
        claims = [
            schemas.ClaimSummaryOut(
                each.id,
                f"{request.path}/{each.id}",
                each.ttl,
                each.age,
                each.messages,
                each.client or UNSET,
            )
            for each in page.items
        ]
        return Answer(documents.encode(schemas.ClaimPageOut(claims, links)))

    @verb
    def move(self, request: Request[None, MoveIn], queue: str) -> Steps[Answer]:
        """Moves messages to the end of another queue of the project, each once.

        Either those with `ids`, or the oldest free ones, at most `limit`.  Claimed messages are
        left.  Without `queue` dead letters go back to where they came from; those of a queue that
        does not exist any more are left, and counted.  Their TTL begins anew.  A request that
        failed may be repeated: for a day the other queue knows which messages it has; those that
        it does not have yet are held for a minute.
        """
        asked = request.document
        # Without a queue it may be any: a right must be for all.
        self._policy.authorize(
            request.identity, "messages:create", request.project, asked.queue or ""
        )
        done = yield self._administration.move(
            request.project,
            queue,
            target=asked.queue,
            ids=asked.ids,
            limit=asked.limit,
            copy=asked.copy,
        )
        missing = done.missing_origins or UNSET
        return Answer(
            documents.encode(schemas.MovedOut(list(done.moved), list(done.left), missing))
        )


def _peeked(queue: str, peeked: PeekedMessage) -> schemas.PeekedOut:
    message = peeked.message
    shown = documents.shown_message(queue, message, _ALL)
    return schemas.PeekedOut(
        **msgspec.structs.asdict(shown),
        state=peeked.state,
        claim=message.claim_id or UNSET,
        claim_client_id=peeked.claim_client or UNSET,
        until=UNSET if peeked.until is None else documents.iso(peeked.until),
        dead_letter_from=message.origin or UNSET,
    )
