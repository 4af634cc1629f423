# SPDX-License-Identifier: Apache-2.0
"""/v2/queues and its sub-resources, except messages and claims."""

from __future__ import annotations

from typing import Any

from zaqar_redis import errors, rules
from zaqar_redis.api import decoding, documents
from zaqar_redis.api.exchange import DONE, Answer, Request
from zaqar_redis.api.queries import QueueListQuery, StatsQuery
from zaqar_redis.api.schemas import PurgeIn, ShareIn
from zaqar_redis.auth.policy import PolicyEnforcer
from zaqar_redis.auth.signed_urls import UrlSigner
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.records import Stats
from zaqar_redis.service import patches
from zaqar_redis.service.queues import QueueService
from zaqar_redis.service.subscriptions import SubscriptionService

#: The rules of what a pre-signed URL opens, by resource and method.
_SIGNED = {
    ("messages", "GET"): ("messages:get_all", "messages:get"),
    ("messages", "POST"): ("messages:create",),
    ("messages", "DELETE"): ("messages:delete", "messages:delete_all"),
    ("claims", "POST"): ("claims:create", "claims:delete"),
    ("claims", "GET"): ("claims:get",),
    ("claims", "PATCH"): ("claims:update",),
    ("claims", "DELETE"): ("claims:delete",),
    ("subscriptions", "GET"): ("subscription:get_all", "subscription:get"),
    ("subscriptions", "POST"): ("subscription:create",),
    ("subscriptions", "PATCH"): ("subscription:update",),
    ("subscriptions", "PUT"): ("subscription:confirm",),
    ("subscriptions", "DELETE"): ("subscription:delete",),
}


class QueueHandlers(ComposedVerbs):
    def __init__(
        self,
        queues: QueueService,
        subscriptions: SubscriptionService,
        signer: UrlSigner,
        policy: PolicyEnforcer,
    ) -> None:
        self._policy = policy
        self._queues = queues
        self._subscriptions = subscriptions
        self._signer = signer

    @verb
    def list(self, request: Request[QueueListQuery, None]) -> Steps[Answer]:
        """Lists the project's queues, by name.

        503 while a store is unavailable that has queues of the project: no queue is left out, so
        that nobody takes it for deleted.  `partial` shows the others, and names.
        """
        project, query = request.project, request.query
        if query.with_stats:
            self._policy.authorize(request.identity, "queues:stats", project, "")
        page = yield self._queues.list(
            project,
            query.marker or "",
            query.limit,
            query.name or "",
            query.filters,
            partial=bool(query.partial),
        )
        count = (yield self._queues.count(project)) if query.with_count else None
        shown = [self._queues.shown(queue.name, queue.metadata) for queue in page.items]
        stats = {}
        if query.with_stats:
            names = [queue.name for queue in page.items if not queue.unavailable]
            read = self._stats_if_available if query.partial else self._queues.stats
            found = yield [read(project, name) for name in names]
            stats = {name: each for name, each in zip(names, found, strict=True) if each}
        links = documents.next_link(request.path, query, page.marker)
        return Answer(
            documents.queue_page(
                page,
                shown if query.detailed else None,
                stats,
                links,
                count,
                partial=bool(query.partial),
            )
        )

    @verb
    def _stats_if_available(self, project: str, queue: str) -> Steps[Stats | None]:
        try:
            found: Stats = yield self._queues.stats(project, queue)
        except errors.Unavailable:  # since the listing
            return None
        return found

    @verb
    def create(self, request: Request[None, dict[str, Any]], queue: str) -> Steps[Answer]:
        """Creates a queue.

        A queue that exists is left as it is, metadata included; the metadata given must be
        valid all the same, and `Ignored` names what differs.
        """
        project, metadata = request.project, request.document
        self._policy.authorize_metadata(request.identity, project, metadata)
        created = yield self._queues.create(project, queue, metadata)
        if not created:
            differing = yield self._queues.differing(project, queue, metadata)
            request.ignored = [*request.ignored, *differing]
        location = ("location", rules.path_of(queue))
        return Answer(status=201 if created else 204, headers=(location,))

    @verb
    def get(self, request: Request[None, None], queue: str) -> Steps[Answer]:
        """Shows a queue's metadata.

        A queue that does not exist shows the defaults alone.
        """
        return Answer(documents.encode((yield self._queues.get(request.project, queue))))

    @verb
    def patch(self, request: Request[None, Any], queue: str) -> Steps[Answer]:
        """Changes a queue's metadata.

        All operations are applied, or none.  `add` sets a key, `replace` sets one that exists
        or is reserved, `remove` removes one.  Removing a reserved attribute restores its
        default.
        """
        changes = patches.read(request.document)
        given = {change.key: change.value for change in changes}
        self._policy.authorize_metadata(request.identity, request.project, given)
        changed = yield self._queues.patch(request.project, queue, changes)
        return Answer(documents.encode(changed))

    @verb
    def delete(self, request: Request[None, None], queue: str) -> Steps[Answer]:
        """Deletes a queue with all that is in it."""
        yield self._queues.delete(request.project, queue)
        return DONE

    @verb
    def stats(self, request: Request[StatsQuery, None], queue: str) -> Steps[Answer]:
        """Counts a queue's messages.

        A queue that does not exist has none; `detailed` is a 404 then.
        """
        detailed = bool(request.query.detailed)
        if detailed and (yield self._queues.find(request.project, queue)) is None:
            raise errors.NotFound(why=f"The {rules.described(queue)} does not exist.")
        found = yield self._queues.stats(request.project, queue)
        document = documents.stats(queue, found, detailed)
        if detailed:
            document.messages.bytes = (yield self._queues.size(request.project, queue)).bytes
        return Answer(documents.encode(document))

    @verb
    def purge(self, request: Request[None, PurgeIn], queue: str) -> Steps[Answer]:
        """Empties a queue.

        Deletes all messages, claimed and delayed ones too, and all subscriptions; keeps the
        queue.
        """
        types = decoding.purged_types(request.document)
        if "messages" in types:
            yield self._queues.purge(request.project, queue)
        if "subscriptions" in types:
            yield self._subscriptions.purge(request.project, queue)
        return DONE

    async def share(self, request: Request[None, ShareIn], queue: str) -> Answer:
        """Creates a pre-signed URL.

        Whoever has the answer may use the paths and methods in it until it expires: see the
        security scheme `presignedUrl`.  400 when the operator has not set a key to sign with.
        Nobody can sign for more than they may do themselves.
        """
        asked, project = request.document, request.project
        signed = self._signer.share(project, queue, asked.paths, asked.methods, asked.expires)
        for path in signed.paths:
            for method in signed.methods:
                for action in _SIGNED.get((path.rpartition("/")[2], method), ()):
                    self._policy.authorize(request.identity, action, project, queue)
        return Answer(documents.encode(signed))
