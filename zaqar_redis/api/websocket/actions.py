# SPDX-License-Identifier: Apache-2.0
"""The table of actions: what requests in frames ask for.

An action is a route of the REST API in another shape: it has the same rule of the policy, the same
limits, and calls the same services.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET, Raw, Struct

from zaqar_redis import errors, rules
from zaqar_redis.api import decoding, documents
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.documents import MessageDetails
from zaqar_redis.api.ignored import DocumentReader
from zaqar_redis.api.rest.subscriptions import keystone_token, longest
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.api.websocket import schemas as docs
from zaqar_redis.api.websocket.frames import SocketRequest
from zaqar_redis.auth.policy import PolicyEnforcer
from zaqar_redis.records import Message
from zaqar_redis.service import subscription_options
from zaqar_redis.service.claims import ClaimService
from zaqar_redis.service.messages import MessageService, missing
from zaqar_redis.service.queues import QueueService
from zaqar_redis.service.subscriptions import SubscriptionService


class ActionResult(NamedTuple):
    body: Any
    status: int = 200


Run = Callable[[SocketRequest, Any], Awaitable[ActionResult]]
#: Method and path of the route, what runs, and the body that it takes.
ActionRow = tuple[str, str, Run, type[Struct]]


class Action:
    def __init__(
        self, method: str, path: str, run: Run, kind: type[Struct], route: ApiRoute
    ) -> None:
        self.method = method
        #: with the names of fields of the body
        self.path = path
        self.run = run
        #: the rule of `auth.policy` that says who may ask for it
        self.rule = route.action
        #: refuses what has no effect
        self.is_strict = route.strict
        self._limit = route.body
        self._reader = DocumentReader(route.body or Body(kind, "A request"), kind)

    def read(self, data: bytes, ignored: list[str]) -> Any:
        """Returns the body of a request; *ignored* gets the names in it that have no effect.

        Raises BadBody, BadRequest.
        """
        limit = self._limit
        if limit is not None and len(data) > limit.size_max:
            raise limit.too_large()
        return self._reader.read(data, ignored)


class ActionHandlers:
    def __init__(
        self,
        queues: QueueService,
        messages: MessageService,
        claims: ClaimService,
        subscriptions: SubscriptionService,
        limits: rules.Limits,
        policy: PolicyEnforcer,
        *,
        checksums: bool,
    ) -> None:
        self._policy = policy
        self._queues = queues
        self._messages = messages
        self._claims = claims
        self._subscriptions = subscriptions
        self._limits = limits
        self._checksums = checksums

    def table(self, routes: Iterable[ApiRoute], more: Iterable[ActionRow]) -> dict[str, Action]:
        """Returns all by name, with *more*; *routes* have their rules and limits."""
        known = {(route.method, route.path): route for route in routes}
        queue = "/v2/queues/{queue}"
        messages, claims = f"{queue}/messages", f"{queue}/claims"
        message, claim = f"{messages}/{{message}}", f"{claims}/{{claim}}"
        subscriptions = f"{queue}/subscriptions"
        subscription = f"{subscriptions}/{{subscription}}"

        rows: Sequence[ActionRow] = (
            ("GET", "/v2/queues", self.queue_list, docs.QueuesIn),
            ("PUT", queue, self.queue_create, docs.QueueCreateIn),
            ("GET", queue, self.queue_get, docs.QueueIn),
            ("DELETE", queue, self.queue_delete, docs.QueueIn),
            ("GET", f"{queue}/stats", self.queue_get_stats, docs.StatsIn),
            ("POST", f"{queue}/purge", self.queue_purge, docs.QueuePurgeIn),
            ("POST", messages, self.message_post, docs.MessagePostIn),
            ("GET", messages, self.message_list, docs.MessageListIn),
            ("GET", message, self.message_get, docs.MessageIdIn),
            ("GET", messages, self.message_get_many, docs.MessageIdsIn),
            ("DELETE", message, self.message_delete, docs.MessageDeleteIn),
            ("DELETE", messages, self.message_delete_many, docs.MessageDeleteManyIn),
            ("POST", claims, self.claim_create, docs.ClaimCreateIn),
            ("GET", claim, self.claim_get, docs.ClaimIdIn),
            ("PATCH", claim, self.claim_update, docs.ClaimUpdateIn),
            ("DELETE", claim, self.claim_delete, docs.ClaimIdIn),
            ("POST", f"{claim}/release", self.claim_release, docs.ClaimReleaseIn),
            ("POST", subscriptions, self.subscription_create, docs.SubscriptionCreateIn),
            ("GET", subscriptions, self.subscription_list, docs.SubscriptionListIn),
            ("GET", subscription, self.subscription_get, docs.SubscriptionIdIn),
            ("PATCH", subscription, self.subscription_update, docs.SubscriptionUpdateIn),
            ("DELETE", subscription, self.subscription_delete, docs.SubscriptionIdIn),
            (
                "PUT",
                f"{subscription}/confirm",
                self.subscription_confirm,
                docs.SubscriptionConfirmIn,
            ),
        )
        return {
            run.__name__: Action(method, path, run, body, known[method, path])
            for method, path, run, body in (*rows, *more)
        }

    async def queue_list(self, request: SocketRequest, body: docs.QueuesIn) -> ActionResult:
        page = await self._queues.list(request.project, body.marker or "", body.limit, "", {})
        shown = [
            {"name": each.name} | ({"metadata": each.metadata} if body.detailed else {})
            for each in page.items
        ]
        return ActionResult({"queues": shown})

    async def queue_create(self, request: SocketRequest, body: docs.QueueCreateIn) -> ActionResult:
        self._policy.authorize_metadata(request.identity, request.project, body.metadata)
        created = await self._queues.create(request.project, body.queue, body.metadata)
        if not created:
            differing = self._queues.differing(request.project, body.queue, body.metadata)
            request.ignored = [*request.ignored, *await differing]
        return ActionResult(f"Queue {body.queue} created.", 201 if created else 204)

    async def queue_get(self, request: SocketRequest, body: docs.QueueIn) -> ActionResult:
        found = await self._queues.find(request.project, body.queue)
        return ActionResult(found.metadata if found else {})  # API

    async def queue_delete(self, request: SocketRequest, body: docs.QueueIn) -> ActionResult:
        await self._queues.delete(request.project, body.queue)
        return ActionResult(f"Queue {body.queue} removed.", 204)

    async def queue_get_stats(self, request: SocketRequest, body: docs.StatsIn) -> ActionResult:
        found = await self._queues.find(request.project, body.queue)
        stats = await self._queues.stats(request.project, body.queue)
        counts: dict[str, Any] = {"claimed": stats.claimed, "free": stats.free}
        counts["total"] = stats.total
        if stats.oldest is not None and stats.newest is not None:
            counts |= {"oldest": _end(stats.oldest), "newest": _end(stats.newest)}
        shown: dict[str, Any] = {"messages": counts}
        if body.detailed and found is not None:
            size = await self._queues.size(request.project, body.queue)
            counts |= {"delayed": stats.delayed, "bytes": size.bytes}
            shown["counters"] = stats.counters
        return ActionResult(shown, 404 if found is None else 200)

    async def queue_purge(self, request: SocketRequest, body: docs.QueuePurgeIn) -> ActionResult:
        types = decoding.purged_types(body)
        if "messages" in types:
            await self._queues.purge(request.project, body.queue)
        if "subscriptions" in types:
            await self._subscriptions.purge(request.project, body.queue)
        return ActionResult({}, 204)

    async def message_post(self, request: SocketRequest, body: docs.MessagePostIn) -> ActionResult:
        posted = await self._messages.post(
            request.project,
            body.queue,
            decoding.drafts(body, self._checksums),
            client=request.client,
            size=len(request.data),
        )
        answer: dict[str, Any] = {"message_ids": posted.ids}
        if posted.duplicates:
            answer["duplicates"] = posted.duplicates
        return ActionResult(answer, 201)

    async def message_list(self, request: SocketRequest, body: docs.MessageListIn) -> ActionResult:
        page = await self._messages.list(
            request.project,
            body.queue,
            client=request.client,
            marker=body.marker,
            limit=body.limit,
            echo=bool(body.echo),
            include_claimed=bool(body.include_claimed),
            include_delayed=bool(body.include_delayed),
            wait=None,
            watch_disconnect=request.watch_disconnect,
        )
        return ActionResult({"messages": _messages(page.items, body)})

    async def message_get(self, request: SocketRequest, body: docs.MessageIdIn) -> ActionResult:
        found = await self._messages.get(request.project, body.queue, [body.message])
        if not found:
            raise missing(body.message, body.queue)
        return ActionResult({"messages": _message(found[0], body)})

    async def message_get_many(
        self, request: SocketRequest, body: docs.MessageIdsIn
    ) -> ActionResult:
        found = await self._messages.get(request.project, body.queue, body.ids)
        return ActionResult({"messages": _messages(found, body)})

    async def message_delete(
        self, request: SocketRequest, body: docs.MessageDeleteIn
    ) -> ActionResult:
        await self._messages.delete(request.project, body.queue, body.message, body.claim_id)
        return ActionResult({}, 204)

    async def message_delete_many(
        self, request: SocketRequest, body: docs.MessageDeleteManyIn
    ) -> ActionResult:
        ids, pop, claims = body.chosen(self._limits, "message_ids")
        if pop is not None:
            popped = await self._messages.pop(request.project, body.queue, pop)
            return ActionResult(Raw(documents.popped(popped, body)))
        await self._messages.delete_many(request.project, body.queue, ids or [], claims)
        return ActionResult({}, 204)

    async def claim_create(self, request: SocketRequest, body: docs.ClaimCreateIn) -> ActionResult:
        claimed = await self._claims.create(
            request.project,
            body.queue,
            ttl=body.ttl,
            grace=body.grace,
            limit=body.limit,
            client=request.client,
            wait=None,
            watch_disconnect=request.watch_disconnect,
        )
        if claimed.claim_id is None:
            return ActionResult({"claim_id": None}, 204)
        messages = _messages(claimed.messages, body, claimed.claim_id)
        return ActionResult({"claim_id": claimed.claim_id, "messages": messages}, 201)

    async def claim_get(self, request: SocketRequest, body: docs.ClaimIdIn) -> ActionResult:
        found = await self._claims.get(request.project, body.queue, body.claim)
        messages = _messages(found.messages, body, found.id)
        return ActionResult({"age": found.age, "ttl": found.ttl, "messages": messages})

    async def claim_update(self, request: SocketRequest, body: docs.ClaimUpdateIn) -> ActionResult:
        renewed = await self._claims.update(
            request.project,
            body.queue,
            body.claim,
            ttl=body.ttl,
            grace=body.grace,
            ids=body.ids,
            field="message_ids",
        )
        if body.ids is None:
            return ActionResult(f"Claim {body.claim} updated.", 204)
        return ActionResult(documents.renewed(body.ids, renewed))

    async def claim_release(
        self, request: SocketRequest, body: docs.ClaimReleaseIn
    ) -> ActionResult:
        released = await self._claims.release(
            request.project,
            body.queue,
            body.claim,
            ids=body.ids,
            delay=body.delay,
            reason=body.reason,
            field="message_ids",
        )
        return ActionResult(documents.released(body.ids, released))

    async def claim_delete(self, request: SocketRequest, body: docs.ClaimIdIn) -> ActionResult:
        await self._claims.delete(request.project, body.queue, body.claim)
        return ActionResult(f"Claim {body.claim} deleted.", 204)

    async def subscription_create(
        self, request: SocketRequest, body: docs.SubscriptionCreateIn
    ) -> ActionResult:
        project, queue, socket = request.project, body.queue, request.subscriber
        options = body.options or {}
        given: Any = {"ttl": body.ttl, "options": options, "longest": longest(request)}
        secret, wanted = "", None
        if body.paused and not body.subscriber:
            raise errors.BadRequest(why='The subscriber is a socket: "paused" has no effect.')
        self._policy.authorize_subscription(request.identity, project, body.subscriber, options)
        try:
            if body.subscriber:
                created = await self._subscriptions.create(
                    project,
                    queue,
                    body.subscriber,
                    paused=bool(body.paused),
                    token=keystone_token(request),
                    **given,
                )
                id, secret, is_new = created.id, created.secret, created.is_new
            else:
                wanted = subscription_options.parse(options).filter
                id = await self._subscriptions.create_for_socket(
                    project, queue, socket.uri, **given
                )
                is_new = True
        except errors.SubscriberTaken:
            is_new = False
        if not is_new:
            return ActionResult(f"Subscription {queue} not created.", 409)
        if not body.subscriber:
            try:
                await socket.begin_pushes(
                    project,
                    queue,
                    id,
                    wanted=wanted,
                    with_attributes=bool(body.with_attributes),
                )
            except errors.Problem:
                await self._subscriptions.delete(project, queue, id)
                raise
        made = {"subscription_id": id, "message": f"Subscription {queue} created."}
        return ActionResult(made | ({"secret": secret} if secret else {}), 201)

    async def subscription_list(
        self, request: SocketRequest, body: docs.SubscriptionListIn
    ) -> ActionResult:
        page = await self._subscriptions.list(request.project, body.queue, body.marker, body.limit)
        return ActionResult({"subscriptions": list(map(documents.subscription, page.items))})

    async def subscription_get(
        self, request: SocketRequest, body: docs.SubscriptionIdIn
    ) -> ActionResult:
        found = await self._subscriptions.get(request.project, body.queue, body.subscription)
        return ActionResult(documents.subscription(found))

    async def subscription_update(
        self, request: SocketRequest, body: docs.SubscriptionUpdateIn
    ) -> ActionResult:
        changes = decoding.subscription_changes(body)
        self._policy.authorize_subscription(
            request.identity, request.project, changes.subscriber, changes.options
        )
        await self._subscriptions.update(
            request.project,
            body.queue,
            body.subscription,
            changes,
            longest=longest(request),
            token=keystone_token(request),
        )
        return ActionResult(f"Subscription {body.subscription} updated.", 204)

    async def subscription_confirm(
        self, request: SocketRequest, body: docs.SubscriptionConfirmIn
    ) -> ActionResult:
        await self._subscriptions.confirm(
            request.project, body.queue, body.subscription, confirmed=body.confirmed
        )
        return ActionResult(f"Subscription {body.subscription} updated.", 204)

    async def subscription_delete(
        self, request: SocketRequest, body: docs.SubscriptionIdIn
    ) -> ActionResult:
        await self._subscriptions.delete(request.project, body.queue, body.subscription)
        request.subscriber.end_pushes(body.subscription)
        return ActionResult(f"Subscription {body.subscription} removed.", 204)


def _messages(
    records: Sequence[Message], wanted: MessageDetails, claim: str | None = None
) -> list[docs.HeldMessageOut]:
    return [_message(record, wanted, claim) for record in records]


def _message(
    record: Message, wanted: MessageDetails, claim: str | None = None
) -> docs.HeldMessageOut:
    return docs.HeldMessageOut(
        record.id,
        claim or record.claim_id,
        record.ttl,
        record.age,
        Raw(record.body),
        record.claim_count if wanted.detailed else UNSET,
        **documents.shown_fields(record, wanted),
    )


def _end(end: Message) -> dict[str, Any]:
    return {"id": end.id, "age": end.age, "created": documents.iso(end.created)}
