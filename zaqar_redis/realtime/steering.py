# SPDX-License-Identifier: Apache-2.0
"""What reaches the connections of a user wherever they are, and what only all nodes know."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from zaqar_redis import errors
from zaqar_redis.auth import tokens
from zaqar_redis.realtime import codes, control, subscribing, wire
from zaqar_redis.realtime.codes import Close, Closed, Refused
from zaqar_redis.realtime.engine import Position
from zaqar_redis.realtime.session import Session

if TYPE_CHECKING:
    from zaqar_redis.realtime.node import Node

LOG = logging.getLogger(__name__)

#: Seconds to wait for what other nodes know: one that does not answer is as good as gone.
_PATIENCE = 5.0


class _Survey:
    def __init__(self, node: str) -> None:
        self.answers: list[control.Answer] = []
        #: how many there will be; None: not known yet
        self.expected: int | None = None
        self.whole = asyncio.Event()

    def add(self, answer: control.Answer) -> None:
        self.answers.append(answer)
        self.look()

    def look(self) -> None:
        if self.expected is not None and len(self.answers) >= self.expected:
            self.whole.set()


class Steering:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._surveys: dict[str, _Survey] = {}
        #: session -> where the commands go that reached another node, or came by a request
        self.inlets: dict[str, Callable[[bytes], None]] = {}

    async def tell(self, message: control.Message, node: str = "") -> int:
        """All nodes, this one too, or one.  How many there are.  Raises Unavailable."""
        return await self._node.engine.bus.publish_control(control.pack(message), node)

    async def frame(self, node: str, session: str, data: bytes) -> bool:
        """Hand commands to a session, wherever it is; False: there is no such node."""
        if node == self._node.id:
            self._take(control.Frame(session, data))
            return True
        return await self.tell(control.Frame(session, data), node) > 0

    async def survey(self, project: str, what: str, pattern: str = "") -> Sequence[control.Answer]:
        """What all nodes say that answer in time.  Raises Unavailable."""
        id = str(uuid.uuid4())
        survey = self._surveys[id] = _Survey(id)
        try:
            asked = control.Ask(id, self._node.id, project, what, pattern)
            survey.expected = await self.tell(asked)
            survey.look()
            try:
                async with asyncio.timeout(_PATIENCE):
                    await survey.whole.wait()
            except TimeoutError:
                pass
            return survey.answers
        finally:
            del self._surveys[id]

    def hear(self, payload: bytes) -> None:
        """What a node said, perhaps this one."""
        match control.unpack(payload):
            case control.Frame() as frame:
                self._take(frame)
            case control.Ask() as asked:
                self._node.later(self._answer(asked))
            case control.Answer() as answer:
                survey = self._surveys.get(answer.id)
                if survey is not None:
                    survey.add(answer)
            case message:
                for session in self._node.sessions.meant(message.who):
                    self._steer(session, message)

    def _take(self, frame: control.Frame) -> None:
        inlet = self.inlets.get(frame.session)
        if inlet is not None:
            inlet(frame.data)

    async def _answer(self, asked: control.Ask) -> None:
        answer = control.Answer(asked.id)
        if self._node.serves:
            answer.report = self._report()
        if asked.what == "channels":
            answer.channels = {
                channel: count
                for channel, count in self._node.subscribers(asked.project).items()
                if not asked.pattern or fnmatchcase(channel, asked.pattern)
            }
        await self.tell(answer, asked.node)

    def _report(self) -> control.Report:
        node = self._node
        counts = node.counts()
        return control.Report(
            node=node.id,
            name=node.name,
            version=node.version,
            clients=len(node.sessions),
            users=node.sessions.users,
            channels=len(counts),
            subscriptions=sum(counts.values()),
            uptime=round(time.time() - node.started),
        )

    def _steer(
        self,
        session: Session,
        message: control.Disconnect | control.Unsubscribe | control.Subscribe | control.Refresh,
    ) -> None:
        match message:
            case control.Disconnect(code=code, reason=reason):
                session.close(Close(code, reason))
            case control.Unsubscribe(channel=channel):
                for subscription in list(session.subscriptions.values()):
                    if channel in ("", subscription.channel):
                        session.unsubscribe(subscription, codes.ENDED)
            case control.Subscribe():
                self._node.later(_subscribe(session, message))
            case control.Refresh():
                _refresh(session, message)


async def _subscribe(session: Session, message: control.Subscribe) -> None:
    grant = tokens.Granted(message.info, message.data, message.override)
    since = Position(*message.since) if message.since is not None else None
    try:
        await subscribing.by_server(
            session, message.channel, grant, expire_at=message.expire_at, since=since
        )
    except Refused as refused:  # it stays what it is
        LOG.warning(
            "%.300r: %s",
            message.channel,
            errors.reason(refused),
            extra={"action": "subscribe_refused"},
        )
    except Closed as closed:
        session.close(closed.close)
    except errors.Unavailable:
        session.close(codes.SERVER_ERROR)


def _refresh(session: Session, message: control.Refresh) -> None:
    if message.expired:
        session.close(codes.CONNECTION_EXPIRED)
        return
    session.expire_at = message.expire_at
    if message.info:
        session.conn_info = wire.payload(message.info)
    session.plan()
    ttl = session.ttl(session.expire_at)
    session.push(wire.Push(refresh=wire.Refresh(expires=ttl is not None, ttl=ttl or 0)))


def subscribers_of(answers: Sequence[control.Answer]) -> dict[str, int]:
    """Channel -> subscribers, on all nodes together."""
    found: Counter[str] = Counter()
    for answer in answers:
        found.update(answer.channels)
    return dict(found)
