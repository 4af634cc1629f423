# SPDX-License-Identifier: Apache-2.0
"""A store that cannot be used is told before any task starts, and no password with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from tests import servers
from tests.spark.support import Batch, Query, Store, columns, source, values
from zaqar_redis.errors import BadConfiguration
from zaqar_redis.spark.source import ZaqarDataSource

PASSWORD = "open-sesame"
BODY = StructType([StructField("body", BinaryType())])
#: Everything that a service may do, but to its own keys only.
ALL = "+@all -@admin -@dangerous +info"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Store]:
    with servers.redis_server() as server:
        store = Store(server.uri, "p")
        store.post("hello")
        yield store
        store.close()


User = Callable[[str], str]


@pytest.fixture
def user(guarded: Store) -> Iterator[User]:
    """Make a user with rights to keys of ours; their URI."""
    name = f"user-{uuid.uuid4().hex}"

    def make(rights: str) -> str:
        guarded.command(
            "ACL", "SETUSER", name, "on", f">{PASSWORD}", "~zr:*", "&*", *rights.split()
        )
        return guarded.uri.replace("unix://", f"unix://{name}:{PASSWORD}@")

    yield make
    guarded.command("ACL", "DELUSER", name)


def _plan_batch(made: ZaqarDataSource) -> None:
    Batch(made)


def _plan_stream(made: ZaqarDataSource) -> None:
    query = Query(made)
    try:
        query.plan()
    finally:
        query.stop()


def _plan_write(made: ZaqarDataSource) -> None:
    made.writer(BODY, overwrite=False)


def _plan_sink(made: ZaqarDataSource) -> None:
    made.streamWriter(BODY, overwrite=False)


USES = [
    pytest.param(_plan_batch, {"subscribe": "q"}, id="batch read"),
    pytest.param(_plan_stream, {"subscribe": "q", "maxWait": "0s"}, id="streaming read"),
    pytest.param(
        _plan_stream, {"subscribe": "q", "consume": "claim", "group": "g"}, id="claiming read"
    ),
    pytest.param(_plan_write, {"queue": "q"}, id="batch write"),
    pytest.param(_plan_sink, {"queue": "q"}, id="streaming write"),
]
Plan = Callable[[ZaqarDataSource], None]


def _refused(plan: Plan, option: str, **options: object) -> str:
    with pytest.raises(BadConfiguration) as caught:
        plan(source(project="p", **options))
    text = str(caught.value)
    assert text.startswith(f'option "{option}": ')
    assert PASSWORD not in text
    return text


def test_a_user_with_all_rights_reads(user: User) -> None:
    made = source(project="p", subscribe="q", uri=user(ALL))
    assert values(Batch(made).rows()) == ["hello"]


@pytest.mark.parametrize(("plan", "options"), USES)
def test_who_may_not_run_scripts_is_refused(
    user: User, plan: Plan, options: dict[str, object]
) -> None:
    text = _refused(plan, "uri", uri=user(f"{ALL} -evalsha -eval"), **options)
    assert "evalsha" in text


@pytest.mark.parametrize("command", ["hmget", "zrangebyscore", "zcount", "zmscore"])
@pytest.mark.parametrize(("plan", "options"), USES[:2])
def test_who_may_not_read_messages_is_refused(
    user: User, plan: Plan, options: dict[str, object], command: str
) -> None:
    _refused(plan, "uri", uri=user(f"{ALL} -{command}"), **options)


@pytest.mark.parametrize(("plan", "options"), USES[2:])
def test_who_may_only_read_cannot_take_or_write(
    user: User, plan: Plan, options: dict[str, object]
) -> None:
    _refused(plan, "uri", uri=user("+@read +@connection +@scripting +@pubsub +time"), **options)


def test_who_may_only_read_reads(user: User) -> None:
    uri = user("+@read +@connection +@scripting +@pubsub +time")
    assert values(Batch(source(project="p", subscribe="q", uri=uri)).rows()) == ["hello"]
    query = Query(source(project="p", subscribe="q", uri=uri, startingOffsets="earliest"))
    assert values(query.trigger() or []) == ["hello"]
    query.stop()


@pytest.mark.parametrize(("plan", "options"), USES)
def test_another_s_keys_are_refused(
    guarded: Store, user: User, plan: Plan, options: dict[str, object]
) -> None:
    uri = user(f"{ALL} resetkeys ~other:*")
    _refused(plan, "uri", uri=uri, **options)


@pytest.mark.parametrize(("plan", "options"), USES)
def test_a_wrong_password_is_told(user: User, plan: Plan, options: dict[str, object]) -> None:
    uri = user(ALL).replace(PASSWORD, f"not-{PASSWORD}")
    text = _refused(plan, "uri", uri=uri, timeout="200ms", **options)
    assert "invalid username-password" in text


@pytest.mark.parametrize(("plan", "options"), USES)
def test_a_store_that_is_not_there_is_told(plan: Plan, options: dict[str, object]) -> None:
    uri = f"redis://:{PASSWORD}@127.0.0.1:{servers.free_port()}"
    text = _refused(plan, "uri", uri=uri, timeout="200ms", **options)
    assert "cannot be reached" in text


@pytest.mark.parametrize(("plan", "options"), USES)
def test_a_control_store_that_is_not_there_is_told(
    guarded: Store, plan: Plan, options: dict[str, object]
) -> None:
    control = f"redis://:{PASSWORD}@127.0.0.1:{servers.free_port()}"
    _refused(plan, "controlUri", uri=guarded.uri, controlUri=control, timeout="200ms", **options)


@pytest.mark.parametrize("option", ["uri", "controlUri"])
@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("memory://", "memory:// is within one process; Spark has several"),
        ("http://h", ""),
        (f"redis://:{PASSWORD}@h:port", ""),
        (f"redis://:{PASSWORD}@h/one", ""),
        ("unix://", ""),
        ("embedded://host/x", "it must be embedded://"),
    ],
)
def test_a_uri_that_is_none_is_told(guarded: Store, option: str, uri: str, why: str) -> None:
    made = {"uri": guarded.uri} | {option: uri}
    assert why in _refused(_plan_batch, option, subscribe="q", **made)


def test_plans_show_no_password_of_the_environment(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAQAR_REDIS_URI", user(ALL))
    made = source(project="p", subscribe="q")
    reader = made.reader(columns(made))
    assert PASSWORD not in f"{made.options} {made!r} {reader!r}"
    assert values(Batch(made).rows()) == ["hello"]
