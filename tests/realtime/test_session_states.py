# SPDX-License-Identifier: Apache-2.0
"""The tables of states, walked cell by cell with real sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

import pytest

from tests.realtime.test_session import SECRET, NodeHarness, SessionClient, node_harness, token
from zaqar_redis.auth import tokens
from zaqar_redis.realtime.engine import HistoryFilter, HistoryOptions
from zaqar_redis.realtime.protocol import codes, wire
from zaqar_redis.realtime.protocol.codes import Disconnected
from zaqar_redis.realtime.session import commands, subscribe
from zaqar_redis.realtime.session.context import ChannelSubscription
from zaqar_redis.realtime.session.session import Session
from zaqar_redis.realtime.session.states import (
    ALLOWED_METHODS,
    SESSION_TRANSITIONS,
    SUBSCRIPTION_TRANSITIONS,
    SessionEvent,
    SessionState,
    SubscriptionEvent,
    SubscriptionState,
)

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)
#: Changes of state, in order: before and after.
Changes = list[tuple[Any, Any]]

#: A request of each method.
REQUESTS: dict[str, dict[str, Any]] = {
    "connect": {"token": token()},
    "subscribe": {"channel": "news"},
    "unsubscribe": {"channel": "news"},
    "publish": {"channel": "news", "data": 1},
    "presence": {"channel": "news"},
    "presence_stats": {"channel": "news"},
    "history": {"channel": "news"},
    "ping": {},
    "send": {"data": 1},
    "rpc": {"method": "any"},
    "refresh": {"token": token()},
    "sub_refresh": {"channel": "news", "token": token(channel="news")},
}


def cells(table: Mapping[S, Mapping[E, S]]) -> list[tuple[S, E]]:
    return [(state, event) for state, row in table.items() for event in row]


def recorded(monkeypatch: pytest.MonkeyPatch, kind: type[Any]) -> Changes:
    """Returns a list to which every change of `state` of the class's objects is added."""
    changes: Changes = []
    assign: Any = kind.__setattr__

    def record(self: Any, name: str, value: Any) -> None:
        if name == "state" and hasattr(self, "state"):
            changes.append((self.state, value))
        assign(self, name, value)

    monkeypatch.setattr(kind, "__setattr__", record)
    return changes


def check(changes: Changes, table: Mapping[S, Mapping[E, S]]) -> None:
    possible = {(state, after) for state, row in table.items() for after in row.values()}
    assert set(changes) - possible == set()


@pytest.fixture(autouse=True)
def session_changes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Changes]:
    """The changes of state of sessions: each has to be in the table."""
    changes = recorded(monkeypatch, Session)
    yield changes
    check(changes, SESSION_TRANSITIONS)


@pytest.fixture(autouse=True)
def subscription_changes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Changes]:
    """The changes of state of subscriptions: each has to be in the table."""
    changes = recorded(monkeypatch, ChannelSubscription)
    yield changes
    check(changes, SUBSCRIPTION_TRANSITIONS)


@pytest.fixture
def harness(runner: asyncio.Runner) -> Iterator[NodeHarness]:
    with node_harness(runner) as started:
        yield started


def rejected(harness: NodeHarness) -> SessionClient:
    client = SessionClient(harness)
    assert client.request(connect={"token": token(exp=1)})["error"]["code"] == 109
    return client


def closed(harness: NodeHarness) -> SessionClient:
    client = harness.connected()
    client.session.close(codes.SHUTDOWN)
    return client


CLIENTS: dict[SessionState, Callable[[NodeHarness], SessionClient]] = {
    SessionState.CONNECTING: SessionClient,
    SessionState.REJECTED: rejected,
    SessionState.CONNECTED: NodeHarness.connected,
    SessionState.CLOSED: closed,
}


def test_tables_have_every_state_and_method() -> None:
    assert set(SESSION_TRANSITIONS) == set(ALLOWED_METHODS) == set(CLIENTS) == set(SessionState)
    assert set(SUBSCRIPTION_TRANSITIONS) == set(SubscriptionState)
    assert set(REQUESTS) == set(commands.METHODS) == set(wire.METHODS)


@pytest.mark.parametrize("method", REQUESTS)
@pytest.mark.parametrize("state", SessionState)
def test_command_runs_only_in_the_states_that_allow_it(
    harness: NodeHarness, state: SessionState, method: str
) -> None:
    client = CLIENTS[state](harness)
    assert client.session.state is state
    replies = client.send({"id": 7, method: REQUESTS[method]})
    if method not in ALLOWED_METHODS[state]:
        assert replies == []
        assert client.code == (3001 if state is SessionState.CLOSED else 3501)
    elif method == "send":  # it has no reply
        assert (replies, client.code) == ([], 3508)
    else:
        assert 7 in [each.get("id") for each in replies]
        assert client.session.state is SessionState.CONNECTED


@pytest.mark.parametrize("state", SessionState)
def test_pong_without_a_ping_closes_the_connection_in_any_state(
    harness: NodeHarness, state: SessionState
) -> None:
    client = CLIENTS[state](harness)
    assert client.send("{}") == []
    assert client.code == (3001 if state is SessionState.CLOSED else 3501)


class HeldVerifier(tokens.TokenVerifier):
    """A verifier that waits, as for a key that it has to fetch."""

    def __init__(self) -> None:
        super().__init__(tokens.TokenSettings(hmac_secret_key=SECRET))
        self.fetched = asyncio.Event()

    async def connection(self, token: str) -> tokens.ConnectionClaims:
        await self.fetched.wait()
        return await super().connection(token)


def connect_meanwhile(harness: NodeHarness, state: SessionState, event: SessionEvent) -> Session:
    """Returns a session that came to *state* before its connect command ended with *event*."""
    verifier = harness.scope.verifier = HeldVerifier()
    given = token(exp=1) if event is SessionEvent.REJECT else token()
    session = SessionClient(harness).session

    async def connect() -> None:
        frame = b'{"id": 1, "connect": {"token": "%b"}}' % given.encode()
        connecting = asyncio.create_task(session.receive(frame))
        await asyncio.sleep(0)
        if state is SessionState.CLOSED:
            session.close(codes.SHUTDOWN)
        assert session.state is state
        verifier.fetched.set()
        await connecting

    harness.run(connect())
    return session


@pytest.mark.parametrize(("state", "event"), cells(SESSION_TRANSITIONS))
def test_session_event_leads_to_the_state_in_the_table(
    harness: NodeHarness, session_changes: Changes, state: SessionState, event: SessionEvent
) -> None:
    if event is SessionEvent.CLOSE:
        session = CLIENTS[state](harness).session
        harness.run(session.end())
    else:
        session = connect_meanwhile(harness, state, event)
    after = SESSION_TRANSITIONS[state][event]
    assert session_changes[-1] == (state, after)
    assert session.connected == (after is SessionState.CONNECTED)
    assert session.closed == (after is SessionState.CLOSED)


class GrantedSubscription:
    """A subscription that the server grants, with others who see its client join and leave."""

    def __init__(self, harness: NodeHarness) -> None:
        self._harness = harness
        self.observer = harness.connected("bob")
        self.observer.request(subscribe={"channel": "news"})
        self.client = harness.connected()
        grants = {"news": tokens.SubscriptionGrant()}
        starting = subscribe.server_side_at_connect(self.client.session, grants, {})
        ((self.subscription,), _) = harness.run(starting)
        self.observer.received()

    def go_live(self) -> None:
        self._harness.run(subscribe.go_live(self.subscription))

    def unsubscribe(self) -> None:
        async def unsubscribe() -> None:
            self.client.session.unsubscribe(self.subscription, codes.SERVER_UNSUBSCRIBE)

        self._harness.run(unsubscribe())

    def leave(self) -> None:
        self.client.request(unsubscribe={"channel": "news"})

    def publish(self) -> None:
        assert "publish" in self.observer.request(publish={"channel": "news", "data": 1})


#: What leads to each state.
STEPS: dict[SubscriptionState, list[Callable[[GrantedSubscription], None]]] = {
    SubscriptionState.SUBSCRIBING: [],
    SubscriptionState.UNSUBSCRIBING: [GrantedSubscription.unsubscribe],
    SubscriptionState.SUBSCRIBED: [GrantedSubscription.go_live],
    SubscriptionState.UNSUBSCRIBED: [GrantedSubscription.leave],
}
EVENTS: dict[SubscriptionEvent, Callable[[GrantedSubscription], None]] = {
    SubscriptionEvent.GO_LIVE: GrantedSubscription.go_live,
    SubscriptionEvent.UNSUBSCRIBE: GrantedSubscription.unsubscribe,
    SubscriptionEvent.LEAVE: GrantedSubscription.leave,
}
#: One that has left can only leave again by failing to start: see the test of that.
LEFT_TWICE = (SubscriptionState.UNSUBSCRIBED, SubscriptionEvent.LEAVE)


def granted(harness: NodeHarness, state: SubscriptionState) -> GrantedSubscription:
    granted = GrantedSubscription(harness)
    for step in STEPS[state]:
        step(granted)
    assert granted.subscription.state is state
    return granted


def kinds(client: SessionClient) -> list[str]:
    """Returns the kinds of the pushes that the client got, in order."""
    pushes = [each["push"] for each in client.received() if "push" in each]
    return [kind for push in pushes for kind in push if kind != "channel"]


@pytest.mark.parametrize(
    ("state", "event"), [cell for cell in cells(SUBSCRIPTION_TRANSITIONS) if cell != LEFT_TWICE]
)
def test_subscription_event_leads_to_the_state_in_the_table(
    harness: NodeHarness,
    subscription_changes: Changes,
    state: SubscriptionState,
    event: SubscriptionEvent,
) -> None:
    with_others = granted(harness, state)
    subscription_changes.clear()
    EVENTS[event](with_others)
    assert subscription_changes[0] == (state, SUBSCRIPTION_TRANSITIONS[state][event])
    # The session has what has not ended, and nothing else.
    subscription = with_others.subscription
    is_listed = subscription in subscription.session.subscriptions.values()
    assert is_listed == (subscription.state is not SubscriptionState.UNSUBSCRIBED)
    # Whoever was seen to join is seen to leave, and nobody else.
    harness.run(subscription.session.end())
    seen = kinds(with_others.observer)
    assert seen in ([], ["join", "leave"])
    assert (seen != []) == subscription.joined


@pytest.mark.parametrize(
    ("state", "pushed"),
    [
        (SubscriptionState.SUBSCRIBING, ["pub", "join"]),
        (SubscriptionState.UNSUBSCRIBING, ["pub", "unsubscribe"]),
        (SubscriptionState.SUBSCRIBED, ["pub"]),
        (SubscriptionState.UNSUBSCRIBED, []),
    ],
)
def test_publication_reaches_the_client_once_it_is_live(
    harness: NodeHarness, state: SubscriptionState, pushed: list[str]
) -> None:
    with_others = granted(harness, state)
    with_others.client.received()
    with_others.publish()
    if state is not SubscriptionState.SUBSCRIBED:
        assert kinds(with_others.client) == []
        with_others.go_live()
    assert kinds(with_others.client) == pushed


@pytest.fixture
def read(harness: NodeHarness, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Holds all reads of histories, as a slow store does, until it is set."""
    event, history = asyncio.Event(), harness.node.engine.history
    read_history = history.history

    async def held(channel: str, since: HistoryFilter, history_options: HistoryOptions) -> Any:
        await event.wait()
        return await read_history(channel, since, history_options)

    monkeypatch.setattr(history, "history", held)
    return event


def test_subscription_ends_when_the_connection_ends_while_it_starts(
    harness: NodeHarness, subscription_changes: Changes, read: asyncio.Event
) -> None:
    session = harness.connected().session

    async def scenario() -> None:
        starting = asyncio.create_task(
            subscribe.server_side(session, "news", tokens.SubscriptionGrant())
        )
        await asyncio.sleep(0)
        await session.end()
        read.set()
        with pytest.raises(Disconnected):
            await starting

    harness.run(scenario())
    state, event = LEFT_TWICE
    left = SubscriptionState.UNSUBSCRIBED
    assert subscription_changes == [
        (SubscriptionState.SUBSCRIBING, left),
        (state, SUBSCRIPTION_TRANSITIONS[state][event]),
    ]


def test_client_that_leaves_while_it_is_being_subscribed_stays_away(
    harness: NodeHarness, read: asyncio.Event
) -> None:
    observer, client = harness.connected("bob"), harness.connected()
    read.set()
    observer.request(subscribe={"channel": "news"})
    read.clear()
    observer.received()

    async def subscribe_ann() -> asyncio.Task[None]:
        granted = subscribe.server_side(client.session, "news", tokens.SubscriptionGrant())
        starting = asyncio.create_task(granted)
        await asyncio.sleep(0)
        return starting

    starting = harness.run(subscribe_ann())
    assert list(client.session.subscriptions) == ["news"]
    client.request(unsubscribe={"channel": "news"})
    read.set()
    harness.run(asyncio.wait_for(starting, 10))
    assert kinds(client) == kinds(observer) == []
    present = observer.request(presence={"channel": "news"})["presence"]["presence"]
    assert [each["user"] for each in present.values()] == ["bob"]
