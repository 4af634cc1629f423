# SPDX-License-Identifier: Apache-2.0
"""A script is called with exactly the names of keys and arguments in its first lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from zaqar_redis.keyspace.keys import ProjectKeys, QueueKeys
from zaqar_redis.keyspace.script import Call, Script, Steps, Verb, _signature, verb

QUEUE = QueueKeys("p", "q")


def test_keys_and_arguments_are_sent_in_the_order_of_the_script() -> None:
    command = Script("claim_delete")(QUEUE, claim="c", now=7).command()
    keys = (
        QUEUE.queue,
        QUEUE.ready,
        QUEUE.claimed,
        QUEUE.holds,
        QUEUE.claims,
        QUEUE.leases,
        QUEUE.move_lock,
    )
    assert command[0] == "EVALSHA"
    assert command[2:] == (7, *keys, 7, "c")


def test_script_with_one_key_sends_one_key() -> None:
    project = ProjectKeys("p")
    call = Script("project_count")(project)
    assert call.command()[2:] == (1, project.queues)


def test_variadic_arguments_follow_the_named_ones() -> None:
    command = Script("message_get")(QUEUE, "epoch", 1, now=7).command()
    assert command[-3:] == (7, "epoch", 1)


def test_unknown_script_is_loaded_and_called_again() -> None:
    call = Script("queue_get")(QUEUE, peek=0)
    assert call.command_with_source() == ("EVAL", call.script.source, *call.command()[2:])


@pytest.mark.parametrize(
    ("rest", "named"),
    [
        ((), {"now": 1}),
        ((), {"now": 1, "claim": "c", "ttl": 3}),
        ((), {"now": 1, "clam": "c"}),
        ((5,), {"now": 1, "claim": "c"}),
    ],
)
def test_wrong_name_fails_before_anything_is_sent(
    rest: tuple[int, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match="claim_delete"):
        Script("claim_delete")(QUEUE, *rest, **named)


def test_keys_of_another_kind_are_refused() -> None:
    with pytest.raises(AttributeError):
        Script("claim_delete")(ProjectKeys("p"), now=1, claim="c")


def test_missing_script_fails_at_import() -> None:
    with pytest.raises(FileNotFoundError):
        Script("queue_explode")


@pytest.mark.parametrize(
    "text",
    [
        "local a = KEYS[2]\n",
        "local a = KEYS[1]\nlocal b = KEYS[1]\n",
        "local a = ARGV[1]\nlocal b = tonumber(ARGV[3])\n",
        "local a = ARGV[1]\n-- ARGV[3...]: more\n",
    ],
)
def test_malformed_signature_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"x\.lua"):
        _signature("x", text)


def test_signature_is_parsed() -> None:
    text = "-- Do.\nlocal q   = KEYS[1]  -- hash\nlocal now = tonumber(ARGV[1])\nlocal x = 5\n"
    assert _signature("x", text) == (("q",), ("now",))


class _Echo:
    """A client that answers every call with its last argument."""

    def call(self, call: Call) -> Any:
        return call.command()[-1]


class _Verbs:
    def __init__(self) -> None:
        self.client = _Echo()

    @verb
    def both(self, one: int, other: int) -> Steps[Sequence[int]]:
        script = Script("queue_sweep")
        first = yield script(QUEUE, now=one)
        several = yield [script(QUEUE, now=other), script(QUEUE, now=first)]
        return [first, *several]


def test_verb_runs_over_a_blocking_client() -> None:
    made = _Verbs().both(1, other=2)
    assert isinstance(made, Verb)
    assert made.run() == [1, 2, 1]
