# SPDX-License-Identifier: Apache-2.0
"""/v2/queues/{queue}/claims."""

from __future__ import annotations

from zaqar_redis.api import documents
from zaqar_redis.api.exchange import DONE, Answer, Request
from zaqar_redis.api.queries import ClaimQuery, MessageQuery
from zaqar_redis.api.schemas import ClaimIn
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.service.claims import ClaimService


class ClaimHandlers(ComposedVerbs):
    def __init__(self, claims: ClaimService) -> None:
        self._claims = claims

    @verb
    def create(self, request: Request[ClaimQuery, ClaimIn], queue: str) -> Steps[Answer]:
        """Claims the oldest messages.

        Nobody else gets them until the claim ends, is released, or they are deleted; 204 when
        nothing is claimable.  A message that would expire before the claim lives on until the
        end of the claim and the grace.  One that was claimed more often than the queue's
        `_max_claim_count` moves to the dead-letter queue instead.
        """
        claimed = yield self._claims.create(
            request.project,
            queue,
            ttl=request.document.ttl,
            grace=request.document.grace,
            limit=request.query.limit,
            client=request.client,
            wait=request.query.wait,
            watch_disconnect=request.watch_disconnect,
        )
        if request.span is not None:
            request.span.add_links(claimed.messages)
        if claimed.claim_id is None:
            return DONE
        location = ("location", f"/v2/queues/{queue}/claims/{claimed.claim_id}")
        return Answer(
            documents.messages(queue, claimed.messages, request.query),
            201,
            (location,),
        )

    @verb
    def get(self, request: Request[MessageQuery, None], queue: str, claim: str) -> Steps[Answer]:
        """Shows a claim and the messages that it holds."""
        found = yield self._claims.get(request.project, queue, claim)
        if request.span is not None:
            request.span.add_links(found.messages)
        return Answer(documents.claimed(queue, found, request.query))

    @verb
    def update(self, request: Request[None, ClaimIn], queue: str, claim: str) -> Steps[Answer]:
        """Renews a claim.

        It ends `ttl` seconds from now.  What is not given takes the default, not the value
        that the claim was created with.
        """
        ttl, grace = request.document.ttl, request.document.grace
        yield self._claims.update(request.project, queue, claim, ttl=ttl, grace=grace)
        return DONE

    @verb
    def delete(self, request: Request[None, None], queue: str, claim: str) -> Steps[Answer]:
        """Releases a claim.

        The messages that it still holds are claimable at once.
        """
        yield self._claims.delete(request.project, queue, claim)
        return DONE
