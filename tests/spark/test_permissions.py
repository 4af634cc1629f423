# SPDX-License-Identifier: Apache-2.0
"""An unusable store is reported before any task starts, without its password."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.support import servers
from tests.support.spark_reads import (
    BatchRead,
    SimulatedQuery,
    SparkTestStore,
    columns,
    source,
    values,
)
from zaqar_redis.errors import BadConfiguration
from zaqar_redis.spark.source import ZaqarDataSource

PASSWORD = "open-sesame"
BODY = StructType([StructField("body", BinaryType())])
#: All permissions that a service needs, for its own keys only.
ALL = "+@all -@admin -@dangerous +info"


@pytest.fixture(scope="module")
def guarded() -> Iterator[SparkTestStore]:
    with servers.redis_server() as server:
        store = SparkTestStore(server.uri, "p")
        store.post("hello")
        yield store
        store.close()


MakeUserUri = Callable[[str], str]


@pytest.fixture
def user(guarded: SparkTestStore) -> Iterator[MakeUserUri]:
    """Creates Redis users with given ACL rules; returns their URIs."""
    name = f"user-{uuid.uuid4().hex}"

    def make(rights: str) -> str:
        guarded.command(
            "ACL", "SETUSER", name, "on", f">{PASSWORD}", "~zr:*", "&*", *rights.split()
        )
        return guarded.uri.replace("unix://", f"unix://{name}:{PASSWORD}@")

    yield make
    guarded.command("ACL", "DELUSER", name)


def _plan_batch(data_source: ZaqarDataSource) -> None:
    BatchRead(data_source)


def _plan_stream(data_source: ZaqarDataSource) -> None:
    query = SimulatedQuery(data_source)
    try:
        query.plan()
    finally:
        query.stop()


def _plan_write(data_source: ZaqarDataSource) -> None:
    data_source.writer(BODY, overwrite=False)


def _plan_sink(data_source: ZaqarDataSource) -> None:
    data_source.streamWriter(BODY, overwrite=False)


@pytest.fixture
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives up soon what fails, though a busy Redis has its 10 s to answer."""
    monkeypatch.setattr("zaqar_redis.spark.stores._RETRY_TIMEOUTS", 0.05)


USES = [
    pytest.param(_plan_batch, {"subscribe": "q"}, id="batch read"),
    pytest.param(_plan_stream, {"subscribe": "q", "maxWait": "0s"}, id="streaming read"),
    pytest.param(
        _plan_stream, {"subscribe": "q", "consume": "claim", "group": "g"}, id="claiming read"
    ),
    pytest.param(_plan_write, {"queue": "q"}, id="batch write"),
    pytest.param(_plan_sink, {"queue": "q"}, id="streaming write"),
]
PlanFunction = Callable[[ZaqarDataSource], None]


def _refused(plan: PlanFunction, option: str, **options: object) -> str:
    with pytest.raises(BadConfiguration) as caught:
        plan(source(project="p", **options))
    text = str(caught.value)
    assert text.startswith(f'option "{option}": ')
    assert PASSWORD not in text
    return text


def test_user_with_all_permissions_reads(user: MakeUserUri) -> None:
    data_source = source(project="p", subscribe="q", uri=user(ALL))
    assert values(BatchRead(data_source).rows()) == ["hello"]


@pytest.mark.parametrize(
    ("rights", "why"), [("-evalsha -eval", "evalsha"), ("resetkeys ~other:*", "")]
)
@pytest.mark.parametrize(("plan", "options"), USES)
def test_user_without_scripts_or_of_other_keys_is_refused(
    user: MakeUserUri, plan: PlanFunction, options: dict[str, object], rights: str, why: str
) -> None:
    assert why in _refused(plan, "uri", uri=user(f"{ALL} {rights}"), **options)


@pytest.mark.parametrize("command", ["hmget", "zrangebyscore", "zcount", "zmscore"])
@pytest.mark.parametrize(("plan", "options"), USES[:2])
def test_user_without_read_permission_is_refused(
    user: MakeUserUri, plan: PlanFunction, options: dict[str, object], command: str
) -> None:
    _refused(plan, "uri", uri=user(f"{ALL} -{command}"), **options)


@pytest.mark.parametrize(("plan", "options"), USES[2:])
def test_read_only_user_cannot_claim_or_write(
    user: MakeUserUri, plan: PlanFunction, options: dict[str, object]
) -> None:
    _refused(plan, "uri", uri=user("+@read +@connection +@scripting +@pubsub +time"), **options)


def test_read_only_user_reads(user: MakeUserUri) -> None:
    uri = user("+@read +@connection +@scripting +@pubsub +time")
    assert values(BatchRead(source(project="p", subscribe="q", uri=uri)).rows()) == ["hello"]
    query = SimulatedQuery(source(project="p", subscribe="q", uri=uri, startingOffsets="earliest"))
    assert values(query.trigger() or []) == ["hello"]
    query.stop()


@pytest.mark.usefixtures("short_retries")
@pytest.mark.parametrize(("plan", "options"), USES)
def test_wrong_password_is_reported(
    user: MakeUserUri, plan: PlanFunction, options: dict[str, object]
) -> None:
    uri = user(ALL).replace(PASSWORD, f"not-{PASSWORD}")
    text = _refused(plan, "uri", uri=uri, **options)
    assert "invalid username-password" in text


@pytest.mark.usefixtures("short_retries")
@pytest.mark.parametrize(("plan", "options"), USES)
def test_unreachable_store_is_reported(plan: PlanFunction, options: dict[str, object]) -> None:
    uri = f"redis://:{PASSWORD}@127.0.0.1:{servers.free_port()}"
    text = _refused(plan, "uri", uri=uri, **options)
    assert "cannot be reached" in text


@pytest.mark.usefixtures("short_retries")
@pytest.mark.parametrize(("plan", "options"), USES)
def test_unreachable_control_store_is_reported(
    guarded: SparkTestStore, plan: PlanFunction, options: dict[str, object]
) -> None:
    control = f"redis://:{PASSWORD}@127.0.0.1:{servers.free_port()}"
    _refused(plan, "controlUri", uri=guarded.uri, controlUri=control, **options)


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
def test_invalid_uri_is_reported(guarded: SparkTestStore, option: str, uri: str, why: str) -> None:
    data_source = {"uri": guarded.uri} | {option: uri}
    assert why in _refused(_plan_batch, option, subscribe="q", **data_source)


def test_plans_show_no_password_of_the_environment(
    user: MakeUserUri, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAQAR_REDIS_URI", user(ALL))
    data_source = source(project="p", subscribe="q")
    reader = data_source.reader(columns(data_source))
    assert PASSWORD not in f"{data_source.options} {data_source!r} {reader!r}"
    assert values(BatchRead(data_source).rows()) == ["hello"]
