# SPDX-License-Identifier: Apache-2.0
"""A script is called with exactly the names of keys and arguments in its first lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from zaqar_redis.keyspace.keys import GROUPS, ProjectKeys, QueueKeys
from zaqar_redis.keyspace.script import RedisCommand, Script, Steps, Verb, verb
from zaqar_redis.keyspace.script_source import ScriptSource

QUEUE = QueueKeys("p", "q")


def test_keys_and_arguments_are_sent_in_the_order_of_the_script() -> None:
    command = Script("claim_delete")(QUEUE, claim="c", delay=-1, reason="", now=7).command()
    names = (
        *("queue", "bodies", "ready", "claimed", "delayed", "holds", "order", "groups"),
        *("claims", "leases", "move_lock", "sweep_index"),
    )
    keys = tuple(getattr(QUEUE, name) for name in names)
    assert command[0] == "EVALSHA"
    assert command[2:] == (len(keys), *keys, 7, "c", -1, "")


def test_script_with_one_key_sends_one_key() -> None:
    call = Script("transfer_seal")(QUEUE, token="t")
    assert call.command()[2:] == (1, QUEUE.move_lock, "t")


def test_variadic_arguments_follow_the_named_ones() -> None:
    command = Script("message_get")(QUEUE, "epoch", 1, now=7).command()
    assert command[-3:] == (7, "epoch", 1)


def test_script_for_a_cluster_publishes_within_the_slot_of_its_keys() -> None:
    call = Script("claim_delete")(QUEUE, claim="c", delay=-1, reason="", now=7)
    assert "local publish = 'PUBLISH'" in call.script.source
    sharded = call.of_cluster()
    assert "local publish = 'SPUBLISH'" in str(sharded.with_source().command())
    assert sharded.command()[2:] == call.command()[2:]
    assert sharded.packed() != call.packed()
    assert sharded.of_cluster() is sharded


def test_unknown_script_is_loaded_and_called_again() -> None:
    call = Script("queue_get")(QUEUE)
    assert call.with_source().command() == ("EVAL", call.script.source, *call.command()[2:])


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
    with pytest.raises(TypeError, match="claim_get"):
        Script("claim_get")(QUEUE, *rest, **named)


def test_keys_of_another_kind_are_refused() -> None:
    with pytest.raises(AttributeError):
        Script("claim_delete")(ProjectKeys("p"), now=1, claim="c", delay=-1, reason="").command()


def test_missing_script_fails_at_import() -> None:
    with pytest.raises(FileNotFoundError):
        Script("queue_explode")


@pytest.mark.parametrize(
    ("line", "source", "keys", "args"),
    [
        ("--#keys a b", "local a, b = unpack(KEYS, 1, 2)", ["a", "b"], []),
        (
            "--#keys a @content",
            f"local a, {', '.join(GROUPS['content'])} = unpack(KEYS, 1, 13)",
            ["a", *GROUPS["content"]],
            [],
        ),
        (
            "--#args a:number b c:flag",
            "local a, b, c = unpack(ARGV, 1, 3) a = tonumber(a) c = c == '1'",
            [],
            ["a", "b", "c"],
        ),
        ("--#args a rest...", "local a = unpack(ARGV, 1, 1) local rest = 2", [], ["a"]),
    ],
)
def test_signature_becomes_one_line_of_lua(
    line: str, source: str, keys: list[str], args: list[str]
) -> None:
    read = ScriptSource("x", f"-- Do.\n{line}\nreturn 1\n")
    assert read.text == f"-- Do.\n{source}\nreturn 1\n"
    assert (read.keys, read.args, read.takes_rest) == (keys, args, "rest" in line)


def test_signature_of_several_lines_is_numbered_on() -> None:
    text = ScriptSource("x", "--#keys a b\n--#keys c\n").text
    assert text == "local a, b = unpack(KEYS, 1, 2)\nlocal c = unpack(KEYS, 3, 3)\n"


def test_shared_piece_includes_another() -> None:
    text = ScriptSource("x", "--#include settle\n").text
    assert text.index("local function forget(") < text.index("local function settle(")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("--#keys a a\n", "a is named twice"),
        ("--#keys a\n--#args a\n", "a is named twice"),
        ("--#keys @nothing\n", "@nothing is no group of keys: add it to keys.GROUPS"),
        ("--#args a:text\n", 'the argument "a:text": write NAME, NAME:number or NAME:flag'),
        ("--#args all...\n", 'the argument "all...": write'),
        ("--#args rest... a\n", 'the argument "a": .* rest... last'),
        ("--#include nothing\n", "it includes nothing: add lua/shared/nothing.lua"),
        ("--#key a\n", '"--#key" is unknown: write --#keys, --#args, --#pubsub, --#flags or'),
    ],
)
def test_wrong_signature_is_refused_with_what_to_do(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=rf"^x\.lua: {problem}"):
        ScriptSource("x", text)


class _Echo:
    """A client that answers every call with its last argument."""

    def call(self, call: RedisCommand) -> Any:
        return call.command()[-1]

    def calls(self, calls: Sequence[RedisCommand]) -> list[Any]:
        return [self.call(call) for call in calls]


class _Verbs:
    def __init__(self) -> None:
        self.client = _Echo()

    @verb
    def both(self, one: int, other: int) -> Steps[Sequence[int]]:
        script = Script("queue_sweep")
        first = yield script(QUEUE, now=one)
        several = yield [script(QUEUE, now=other), RedisCommand("SET", b"k", first)]
        return [first, *several]


def test_verb_runs_over_a_blocking_client() -> None:
    made = _Verbs().both(1, other=2)
    assert isinstance(made, Verb)
    assert made.run() == [1, 2, 1]
