# SPDX-License-Identifier: Apache-2.0
"""Control messages to the connections of a user on any node, and surveys of all nodes."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

from zaqar_redis import errors
from zaqar_redis.auth import tokens
from zaqar_redis.figures import ChannelFigures
from zaqar_redis.metrics.process_load import LOAD, resident_memory
from zaqar_redis.realtime.engine import Position
from zaqar_redis.realtime.node import control
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.protocol.codes import CommandRejected, DisconnectCode, Disconnected
from zaqar_redis.realtime.session import subscribe
from zaqar_redis.realtime.session.session import Session

if TYPE_CHECKING:
    from zaqar_redis.realtime.node.node import Node

LOG = logging.getLogger(__name__)

#: Seconds to wait for the answers of other nodes: a silent node counts as gone.
_SURVEY_TIMEOUT = 5.0
#: Seconds that a node may take to ask its stores whether they answer.
_STORES_TIMEOUT = 0.4
#: Channels that are reported of a connection.
_CHANNELS_MAX = 20


class _Survey:
    def __init__(self) -> None:
        self.answers: list[control.ControlSurveyResponse] = []
        #: how many answers there will be; None: not known yet
        self.expected: int | None = None
        self.complete = asyncio.Event()

    def add(self, answer: control.ControlSurveyResponse) -> None:
        self.answers.append(answer)
        self.check_complete()

    def check_complete(self) -> None:
        if self.expected is not None and len(self.answers) >= self.expected:
            self.complete.set()


class ControlPlane:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._surveys: dict[str, _Survey] = {}
        #: session -> receiver of its commands that came by a request, to any node
        self.routes: dict[str, Callable[[bytes], None]] = {}

    async def send(self, message: control.ControlMessage, node: str = "") -> int:
        """Sends to one node, or to all, including this one.  Returns how many receive it.

        Raises Unavailable.
        """
        return await self._node.engine.events.publish_control(control.pack(message), node)

    async def frame(self, node: str, session: str, data: bytes) -> bool:
        """Sends commands to a session on any node; returns False when no such node exists."""
        if node == self._node.id:
            self._route_frame(control.ControlFrame(session, data))
            return True
        return await self.send(control.ControlFrame(session, data), node) > 0

    async def survey(
        self,
        project: str,
        what: str,
        pattern: str = "",
        selection: control.ConnectionFilter = control.ANY_CONNECTION,
        seconds: float = _SURVEY_TIMEOUT,
    ) -> Sequence[control.ControlSurveyResponse]:
        """Returns the answers of the nodes that answer within *seconds*.  Raises Unavailable."""
        id = str(uuid.uuid4())
        survey = self._surveys[id] = _Survey()
        try:
            request = control.ControlSurveyRequest(
                id, self._node.id, project, what, pattern, selection
            )
            try:
                async with asyncio.timeout(seconds):
                    survey.expected = await self.send(request)
                    survey.check_complete()
                    await survey.complete.wait()
            except TimeoutError:
                pass
            return survey.answers
        finally:
            del self._surveys[id]

    def handle(self, payload: bytes) -> int:
        """Handles a control message of a node, perhaps of this one.

        Returns to how many connections it was delivered.
        """
        match control.unpack(payload):
            case control.Envelope() as envelope:
                return self._node.routing.deliver(envelope)
            case control.ControlTopic() as change:
                self._node.routing.change(change)
            case control.ControlFrame() as frame:
                self._route_frame(frame)
            case control.ControlSurveyRequest() as request:
                self._node.spawn(self._answer_survey(request))
            case control.ControlSurveyResponse() as answer:
                survey = self._surveys.get(answer.id)
                if survey is not None:
                    survey.add(answer)
            case message:
                sessions = self._node.sessions.matching(message.who)
                for session in sessions:
                    self._apply(session, message)
                return len(sessions)
        return 0

    def _route_frame(self, frame: control.ControlFrame) -> None:
        route = self.routes.get(frame.session)
        if route is not None:
            route(frame.data)

    async def _answer_survey(self, request: control.ControlSurveyRequest) -> None:
        answer = control.ControlSurveyResponse(request.id)
        if self._node.accepts_clients:
            answer.report = self.report()
            if request.what == "load" and self._node.stores is not None:
                answer.report.unavailable = await self._node.stores.unavailable(_STORES_TIMEOUT)
        if request.what == "connections":
            self._add_connections(answer, request)
        if request.what == "channels":
            found = list(self._node.channels(request.project, request.pattern))
            answer.channels = {each.name: each.subscribers for each in found}
            answer.published = [each.published for each in found]
        await self.send(answer, request.node)

    def _add_connections(
        self, answer: control.ControlSurveyResponse, request: control.ControlSurveyRequest
    ) -> None:
        found = [
            each
            for session in self._node.sessions
            if session.connected and session.context.project == request.project
            if request.selection.matches(each := self._connection(session))
        ]
        answer.matching = len(found)
        found.sort(key=connection_order)
        answer.connections = found[: request.selection.limit]

    def _connection(self, session: Session) -> control.ConnectionReport:
        channels = list(islice(session.subscriptions, _CHANNELS_MAX))
        return control.ConnectionReport(
            client=session.client,
            user=session.user,
            transport=session.origin.transport,
            address=session.origin.address,
            connected_at=session.opened_at,
            channels=channels,
            subscriptions=len(session.subscriptions),
            node=self._node.name,
        )

    def report(self) -> control.NodeReport:
        node = self._node
        counts = node.counts()
        return control.NodeReport(
            node=node.id,
            name=node.name,
            version=node.version,
            clients=len(node.sessions),
            users=node.sessions.users,
            channels=len(counts),
            subscriptions=sum(counts.values()),
            uptime=max(0, round(time.time() - node.started)),
            cpu=LOAD.cpu,
            memory=resident_memory(),
            loop_lag=LOAD.loop_lag,
        )

    def _apply(
        self,
        session: Session,
        message: control.ControlDisconnect
        | control.ControlUnsubscribe
        | control.ControlSubscribe
        | control.ControlRefresh,
    ) -> None:
        match message:
            case control.ControlDisconnect(code=code, reason=reason):
                session.close(DisconnectCode(code, reason))
            case control.ControlUnsubscribe(channel=channel):
                for subscription in list(session.subscriptions.values()):
                    if channel in ("", subscription.channel):
                        session.unsubscribe(subscription, codes.SERVER_UNSUBSCRIBE)
            case control.ControlSubscribe():
                self._node.spawn(_subscribe(session, message))
            case control.ControlRefresh():
                _refresh(session, message)


async def _subscribe(session: Session, message: control.ControlSubscribe) -> None:
    grant = tokens.SubscriptionGrant(message.info, message.data, message.override)
    since = Position(*message.since) if message.since is not None else None
    try:
        await subscribe.server_side(
            session, message.channel, grant, expire_at=message.expire_at, since=since
        )
    except CommandRejected as error:  # the session goes on as it is
        LOG.warning(
            "cannot subscribe a client to %.300r: %s",
            message.channel,
            errors.reason(error),
            extra={"action": "subscribe_refused"},
        )
    except Disconnected as disconnected:
        session.close(disconnected.close)
    except errors.Unavailable:
        session.close(codes.SERVER_ERROR)


def _refresh(session: Session, message: control.ControlRefresh) -> None:
    if message.expired:
        session.close(codes.CONNECTION_EXPIRED)
        return
    session.expire_at = message.expire_at
    if message.info:
        session.conn_info = wire.payload(message.info)
    session.schedule_tick()
    ttl = session.ttl(session.expire_at)
    session.push(wire.Push(refresh=wire.Refresh(expires=ttl is not None, ttl=ttl or 0)))


def connection_order(connection: control.ConnectionReport) -> tuple[float, str]:
    """Returns the key by which connections are listed: the latest first."""
    return -connection.connected_at, connection.client


def merge_channels(answers: Sequence[control.ControlSurveyResponse]) -> list[ChannelFigures]:
    """Returns the channels with subscribers on any node, by name."""
    found: dict[str, ChannelFigures] = {}
    for answer in answers:
        for (name, subscribers), published in zip_longest(
            answer.channels.items(), answer.published
        ):
            here = ChannelFigures(name, subscribers, published)
            known = found.get(name)
            found[name] = here if known is None else known.with_node(here)
    return [found[name] for name in sorted(found)]
