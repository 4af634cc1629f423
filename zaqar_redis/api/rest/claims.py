# SPDX-License-Identifier: Apache-2.0
"""/v2/queues/{queue}/claims."""

from __future__ import annotations

from zaqar_redis.api import documents
from zaqar_redis.api.exchange import DONE, Answer, Request
from zaqar_redis.api.queries import ClaimQuery, MessageQuery
from zaqar_redis.api.schemas import ClaimIn, ReleaseIn, RenewalIn
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
    def update(self, request: Request[None, RenewalIn], queue: str, claim: str) -> Steps[Answer]:
        """Renews a claim, or with `ids` the leases of some of its messages.

        It ends `ttl` seconds from now.  What is not given takes the default, not the value
        that the claim was created with.  With `ids` the other messages keep their leases, and the
        claim lasts as long as the longest of them; messages that it does not hold are `left`.
        """
        ttl, grace, ids = request.document.ttl, request.document.grace, request.document.ids
        renewed = yield self._claims.update(
            request.project, queue, claim, ttl=ttl, grace=grace, ids=ids
        )
        if ids is None:
            return DONE
        return Answer(documents.encode(documents.renewed(ids, renewed)))

    @verb
    def release(self, request: Request[None, ReleaseIn], queue: str, claim: str) -> Steps[Answer]:
        """Releases the messages that a claim holds, or with `ids` some of them.

        They can be claimed again after `delay` seconds; without it as the `_redelivery_delay` of
        the queue says, or at once.  Messages that the claim does not hold are `left`.
        """
        document = request.document
        released = yield self._claims.release(
            request.project,
            queue,
            claim,
            ids=document.ids,
            delay=document.delay,
            reason=document.reason,
        )
        return Answer(documents.encode(documents.released(document.ids, released)))

    @verb
    def delete(self, request: Request[None, None], queue: str, claim: str) -> Steps[Answer]:
        """Releases a claim.

        The messages that it still holds are claimable at once, or when the `_redelivery_delay`
        of the queue ends.
        """
        yield self._claims.delete(request.project, queue, claim)
        return DONE
