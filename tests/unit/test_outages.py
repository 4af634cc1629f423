# SPDX-License-Identifier: Apache-2.0
"""What the log says of an outage in which a process loses several connections."""

from __future__ import annotations

import logging
import re
import uuid

import pytest

from zaqar_redis.keyspace.outages import ConnectionLog


@pytest.fixture
def pair(caplog: pytest.LogCaptureFixture) -> tuple[ConnectionLog, ConnectionLog]:
    """Two connections to one store, which no other test uses."""
    caplog.set_level(logging.INFO, "zaqar_redis.keyspace.outages")
    store = f"store-{uuid.uuid4()}"
    one, other = (ConnectionLog(f"connection to {store}", store, "lost") for _ in range(2))
    return one, other


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Returns the lines, without the name of the store."""
    return [re.sub("connection to store-[^: ]*", "X", text) for text in caplog.messages]


def test_outage_of_two_connections_is_told_once_with_each_reason_and_its_end(
    pair: tuple[ConnectionLog, ConnectionLog], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = pair
    assert [each.back("h:1") for each in (one, other, one)] == [True, False, False]
    for reason in ("closed", "refused", "closed"):
        one.lost(reason)
        other.lost(reason)
    one.back("h:2")
    assert _told(caplog) == ["no X: closed", "no X: refused"]
    other.back("h:2")
    assert _told(caplog)[2:] == ["the X is there again: h:2"]


def test_next_outage_is_told_again(
    pair: tuple[ConnectionLog, ConnectionLog], caplog: pytest.LogCaptureFixture
) -> None:
    one, _ = pair
    for _ in range(2):
        one.lost("closed")
        one.back()
    assert _told(caplog) == ["no X: closed", "the X is there again"] * 2


@pytest.mark.parametrize("is_closed_first", [True, False])
def test_outage_ends_without_a_connection_that_was_closed_meanwhile(
    pair: tuple[ConnectionLog, ConnectionLog],
    caplog: pytest.LogCaptureFixture,
    is_closed_first: bool,
) -> None:
    one, other = pair
    one.lost("closed")
    other.lost("closed")
    for end in (other.closed, one.back) if is_closed_first else (one.back, other.closed):
        assert _told(caplog) == ["no X: closed"]
        end()
    assert _told(caplog) == ["no X: closed", "the X is there again"]


def test_connection_that_follows_a_closed_one_tells_the_end(
    pair: tuple[ConnectionLog, ConnectionLog], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = pair
    for _ in range(2):  # as a client that looks for a node again and again
        one.lost("refused")
        one.closed()
    other.back()
    assert _told(caplog) == ["no X: refused", "the X is there again"]


def test_connection_that_stays_lost_does_not_hide_another_outage(
    pair: tuple[ConnectionLog, ConnectionLog], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = pair
    other.lost("closed")
    for _ in range(2):
        one.lost("closed")
        one.back()
    one.lost("closed")
    assert _told(caplog) == ["no X: closed"] * 3


def test_outage_that_has_ever_new_reasons_tells_ten_of_them(
    pair: tuple[ConnectionLog, ConnectionLog], caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1000):
        pair[0].lost(f"reason {number}")
    assert len(caplog.records) == 10
