# SPDX-License-Identifier: Apache-2.0
"""One socket of the WebSocket API: who it is, its requests in their order, its subscriptions."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import UNSET, UnsetType

from zaqar_redis import errors, rules
from zaqar_redis.api import decoding, ignored
from zaqar_redis.api.audit import RequestAudit
from zaqar_redis.api.checks import RequestChecks
from zaqar_redis.api.problems import count_refusal
from zaqar_redis.api.server.outbox import Outbox
from zaqar_redis.api.websocket import frames
from zaqar_redis.api.websocket import schemas as docs
from zaqar_redis.api.websocket.actions import Action, ActionResult
from zaqar_redis.api.websocket.frames import FrameRejected, SocketRequest
from zaqar_redis.api.websocket.pushes import PushEncoding, QueuePushes, SocketSubscription
from zaqar_redis.auth.identity import Identity
from zaqar_redis.auth.strategy import Authenticator
from zaqar_redis.realtime.protocol.codes import DisconnectCode
from zaqar_redis.service.quota_enforcer import QuotaEnforcer
from zaqar_redis.service.subscription_filters import SubscriptionFilter
from zaqar_redis.service.subscriptions import SOCKET, SubscriptionService

LOG = logging.getLogger(__name__)

#: Stock Zaqar's
EXPIRED = DisconnectCode(4003, "Authentication expired.")
NEVER_KNOWN = DisconnectCode(4003, "Not authenticated.")
#: Seconds between two looks whether the credential still holds.
_CHECK_INTERVAL = 2.0
#: At every third of them the subscriptions are read from the store: for a thousand sockets at every
#: look that would cost a tenth of a core.
_SUBSCRIPTION_CHECKS = 3
#: One look reads each of them from the store.
_SUBSCRIPTIONS_MAX = 100

_headers = msgspec.json.Decoder(docs.FrameHeaders)


class ConnectionContext(msgspec.Struct, frozen=True):
    """What all sockets of a process share."""

    actions: Mapping[str, Action]
    checks: RequestChecks
    authenticator: Authenticator
    subscriptions: SubscriptionService
    pushes: QueuePushes
    audit: RequestAudit
    request_ids: Iterator[str]
    #: None: sockets are not limited
    quotas: QuotaEnforcer | None = None


class ApiConnection:
    __slots__ = (
        "_context",
        "_counted",
        "_credential",
        "_identity",
        "_is_known",
        "_out",
        "_performed",
        "_subscriptions",
        "_task",
        "_wants_binary",
        "uri",
    )

    def __init__(self, context: ConnectionContext, out: Outbox) -> None:
        self._context = context
        self._out = out
        #: the headers that it has authenticated with
        self._credential: dict[bytes, bytes] = {}
        self._identity: Identity | None = None
        #: the project that it is counted as a socket of, when it is known
        self._counted: str | None = None
        #: whether the credential was valid when it was looked at
        self._is_known = True
        self._subscriptions: dict[str, SocketSubscription] = {}
        self._task: asyncio.Task[None] | None = None
        #: the present request, when it is known what it asks for
        self._performed: tuple[Action, SocketRequest] | None = None
        #: whether the present request is in MessagePack
        self._wants_binary = False
        self.uri = f"{SOCKET}{uuid.uuid4()}"

    @property
    def user(self) -> str:
        """Who has authenticated, or ""."""
        return "" if self._identity is None else self._identity.user

    # -- requests ----------------------------------------------------------

    async def receive(self, frame: bytes, binary: bool) -> None:
        """Answers the request in a frame."""
        self._wants_binary, self._performed = binary, None
        request = docs.RequestFrame()
        expired = False
        try:
            request = frames.decode(frame, binary)
            body, status = await self._perform(request)
            headers = docs.ResponseHeaders(status, ignored=self._ignored())
        except FrameRejected as rejected:
            body = docs.ErrorOut(rejected.text, rejected.cause)
            headers = docs.ResponseHeaders(rejected.status)
        except (errors.Unauthenticated, errors.BadSignature) as problem:
            count_refusal(problem)
            expired = isinstance(problem, errors.Unauthenticated) and bool(self._credential)
            body, headers = docs.ErrorOut("Not authenticated."), docs.ResponseHeaders(403)
        except errors.Problem as problem:
            count_refusal(problem)
            body = docs.ErrorOut(problem.text, problem.title)
            retry = UNSET if problem.retry is None else problem.retry
            headers = docs.ResponseHeaders(problem.status, retry)
        except Exception:  # the socket goes on
            LOG.exception("unexpected error in a request of a socket", extra={"action": "bug"})
            body, headers = docs.ErrorOut("Unexpected error."), docs.ResponseHeaders(500)
        self._record(headers.status)
        echo = docs.RequestEcho(request.action, request.body, request.headers)
        self._out.send(frames.encode(docs.ResponseFrame(echo, body, headers), binary))
        self._out.flush({})
        if expired:
            self._out.close(EXPIRED)

    async def _perform(self, frame: docs.RequestFrame) -> ActionResult:
        checks, name = self._context.checks, frames.action_name(frame)
        action = self._context.actions.get(name)
        if action is None and name != "authenticate":
            raise FrameRejected(400, f"{name} is not a valid action")
        try:
            headers = decoding.decode(_headers, bytes(frame.headers))
            if action is None:
                return await self._authenticate(headers)
            names: list[str] = []
            body = action.read(bytes(frame.body), names)
        except errors.BadBody as problem:
            raise FrameRejected(400, "Schema validation failed.", problem.text) from None
        queue: str | None = body.queue if "{queue}" in action.path else None
        if queue is not None:
            rules.queue_name(queue)  # it becomes part of a path
        request = self._request(action, headers, body)
        self._performed = action, request
        request.data, request.ignored = bytes(frame.body), names
        checks.check_head(action.method, request)
        try:
            admission = checks.admit(request, action.rule, queue)
            if admission is not None:
                await admission
            if self._counted is None:  # without authentication, or with a pre-signed URL
                self._count(request.project)
            ignored.check(request.ignored, is_strict=action.is_strict)
            result = await action.run(request, body)
            ignored.check(request.ignored, is_strict=action.is_strict)
            return result
        finally:
            checks.release(request)

    def _ignored(self) -> list[str] | UnsetType:
        """Returns the names in the present request that have no effect, if there are any."""
        if self._performed is None or not self._performed[1].ignored:
            return UNSET
        return ignored.shown(self._performed[1].ignored)

    def _record(self, status: int) -> None:
        """Records the request in the audit log, if it belongs there."""
        if self._performed is None:
            return
        audit, (action, request) = self._context.audit, self._performed
        if request.is_foreign or audit.covers(action.rule):
            request_id = next(self._context.request_ids)
            audit.record(action.rule, action.method, request, status, request_id)

    def _request(
        self, action: Action, headers: docs.FrameHeaders, body: msgspec.Struct
    ) -> SocketRequest:
        """Returns the request as the checks of the REST API expect it."""
        path = action.path.format_map(msgspec.structs.asdict(body))
        signed = {
            b"url-signature": headers.signature,
            b"url-expires": headers.expires,
            b"url-methods": ",".join(headers.methods),
            b"url-paths": ",".join(headers.paths),
        }
        shown = self._credential if headers.signature is None else _encoded(signed)
        named = {b"x-project-id": headers.project, b"client-id": headers.client}
        return SocketRequest(path, shown | _encoded(named), self)

    async def _authenticate(self, headers: docs.FrameHeaders) -> ActionResult:
        offered = _encoded(
            {
                b"x-auth-token": headers.token,
                b"authorization": headers.authorization,
                b"x-project-id": headers.project,
            }
        )
        try:
            identity = await self._identify(offered)
        except errors.Unauthenticated as problem:
            count_refusal(problem)
            raise FrameRejected(401, "Authentication failed.") from None
        before = self._identity
        self._count(identity.project)
        if before and _is_other(before, identity):
            await self._end_subscriptions()
        self._credential, self._identity, self._is_known = offered, identity, True
        self._begin_checks()
        return ActionResult({"message": "Authentified."})

    def _count(self, project: str) -> None:
        """Counts the socket as one of the project's.  Raises QuotaExceeded."""
        if project == self._counted:
            return
        if self._context.quotas is not None:
            self._context.quotas.add_socket(project)
        self._forget()
        self._counted = project

    def _forget(self) -> None:
        if self._counted is not None and self._context.quotas is not None:
            self._context.quotas.remove_socket(self._counted)
        self._counted = None

    def close_unless_known(self) -> None:
        """Closes a socket that has had time to say who it is, and has not."""
        if self._counted is None:
            self._out.close(NEVER_KNOWN)

    async def _identify(self, credential: dict[bytes, bytes]) -> Identity:
        found = self._context.authenticator.identify(SocketRequest("", credential, self))
        return found if isinstance(found, Identity) else await found

    # -- subscriptions -----------------------------------------------------

    async def begin_pushes(
        self,
        project: str,
        queue: str,
        id: str,
        *,
        wanted: SubscriptionFilter | None,
        with_attributes: bool,
    ) -> None:
        if len(self._subscriptions) >= _SUBSCRIPTIONS_MAX:
            raise errors.LimitExceeded(most=_SUBSCRIPTIONS_MAX, what="subscriptions of a socket")
        encoding = PushEncoding(self._wants_binary, with_attributes)
        subscription = SocketSubscription(project, queue, id, self, encoding, wanted)
        self._subscriptions[id] = subscription
        try:
            await self._context.pushes.add(subscription)
        except BaseException:
            self.end_pushes(id)
            raise
        self._begin_checks()

    def end_pushes(self, id: str) -> None:
        subscription = self._subscriptions.pop(id, None)
        if subscription is not None:
            self._context.pushes.remove(subscription)

    def push(self, frame: bytes) -> None:
        if self._is_known:
            self._out.send(frame)

    async def end(self) -> None:
        """Deletes the subscriptions of a socket that has ended."""
        if self._task is not None:
            self._task.cancel()
        self._forget()
        await self._end_subscriptions()

    async def _end_subscriptions(self) -> None:
        ended = list(self._subscriptions.values())
        for each in ended:
            self.end_pushes(each.id)
        for each in ended:
            try:
                await self._context.subscriptions.delete(each.project, each.queue, each.id)
            except errors.Unavailable:
                return  # they expire

    def _begin_checks(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._check_again_and_again())

    async def _check_again_and_again(self) -> None:
        for number in itertools.count(1):
            await asyncio.sleep(_CHECK_INTERVAL)
            try:
                if self._credential:
                    await self._identify(self._credential)
                self._is_known = True
            except errors.Unauthenticated:
                self._out.close(EXPIRED)
                return
            except errors.Unavailable:
                self._is_known = False  # nobody can tell: requests get 503, too
            except Exception:
                self._is_known = False
                LOG.exception("a credential cannot be checked", extra={"action": "bug"})
            if number % _SUBSCRIPTION_CHECKS == 0:
                # All at once: a store that does not answer holds up the next look only once.
                await asyncio.gather(*map(self._check, list(self._subscriptions.values())))

    async def _check(self, subscription: SocketSubscription) -> None:
        """Ends the pushes of a subscription that was deleted or has expired."""
        project, queue, id = subscription.project, subscription.queue, subscription.id
        try:
            await self._context.subscriptions.get(project, queue, id)
            if id in self._subscriptions:  # not ended meanwhile
                await self._context.pushes.add(subscription)
        except errors.NotFound:
            self.end_pushes(id)
        except Exception:  # e.g. the store is unavailable: the next look may find it
            LOG.debug("a subscription cannot be checked", exc_info=True)


def _is_other(before: Identity, now: Identity) -> bool:
    """Returns whether it is somebody else, or somebody who may do other things."""
    return msgspec.structs.astuple(before) != msgspec.structs.astuple(now)


def _encoded(headers: dict[bytes, str | None]) -> dict[bytes, bytes]:
    """Returns the headers that are there, as HTTP has them."""
    return {name: text.encode() for name, text in headers.items() if text is not None}
