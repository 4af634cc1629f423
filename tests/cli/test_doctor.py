# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis doctor``: findings of real stores and configurations, and its exit codes."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import fixtures, servers
from tests.support.command_line import CommandLine
from tests.support.redis_cluster import redis_cluster
from tests.support.servers import RedisServer
from tests.support.stores import PATIENT
from zaqar_redis.figures import Alarm, LargeQueue
from zaqar_redis.keyspace import blocking
from zaqar_redis.service import alarms
from zaqar_redis.storage.redis.histories import RedisHistories

#: Settings with which a Redis has no findings.
_GOOD = {"appendonly": "yes", "maxmemory": "1gb", "maxmemory-policy": "noeviction"}


server = fixtures.redis()


@pytest.fixture(autouse=True)
def no_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine adds none of its own to the findings."""
    monkeypatch.setattr(alarms, "_LATENCY_INFO", math.inf)


@pytest.fixture
def good(server: RedisServer) -> RedisServer:
    """A Redis without findings."""
    with server.client() as client:
        for name, value in _GOOD.items():
            client.config_set(name, value)
        servers.wait_for(
            lambda: not client.info("persistence")["aof_rewrite_in_progress"], "the first file"
        )
    return server


def _diagnosed(*words: str) -> tuple[int, list[dict[str, Any]]]:
    outcome = CommandLine().run("doctor", "-f", "json", *words)
    assert "Traceback" not in outcome.stderr
    return outcome.returncode, json.loads(outcome.stdout)


def _of_stores(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in found if not each["where"].startswith(("conf", "/"))]


def test_a_good_store_has_no_findings(good: RedisServer, tmp_path: Path) -> None:
    code, found = _diagnosed("--storage", good.uri)
    assert code == 0
    assert found == []
    assert "nothing is wrong" in CommandLine().notices("doctor", "--storage", good.uri)
    file = servers.config_file(tmp_path, f"[storage]\nuri = {good.uri}\n")
    code, found = _diagnosed("--config-file", file)
    assert code == 0
    assert _of_stores(found) == []
    assert [each["severity"] for each in found] == ["info"]  # no authentication, on loopback


def test_each_finding_says_what_to_do_and_the_worst_is_the_exit_code(good: RedisServer) -> None:
    with good.client() as client:
        client.config_set("maxmemory", "0")
        code, found = _diagnosed("--storage", good.uri)
        assert (code, [each["severity"] for each in _of_stores(found)]) == (0, ["info"])
        client.config_set("maxmemory", "1gb")
        client.config_set("maxmemory-policy", "allkeys-lru")
        code, found = _diagnosed("--storage", good.uri)
    assert code == 3
    assert found[0]["severity"] == "warning"  # the worst first
    assert "allkeys-lru" in found[0]["what"]
    assert "noeviction" in found[0]["remedy"]
    assert found[0]["where"] == "store default"


def test_a_store_that_is_nearly_full_names_the_queues_that_the_service_has_seen(
    good: RedisServer,
) -> None:
    largest = {"default": [LargeQueue("shop", "exports", 572, 12 * 2**20)]}
    with contextlib.closing(blocking.client(good.uri, PATIENT)) as store:
        RedisHistories(store).put_alarms({}, largest, 60).run()
    with good.client() as client:
        client.setrange("ballast", 10 * 2**20, "x")  # else connections take what is left
        client.config_set("maxmemory", round(1.1 * client.info("memory")["used_memory"]))
    code, (finding, *_) = _diagnosed("--storage", good.uri)
    assert code == 3
    assert "Its largest queues: exports of shop (572 messages, about 12 MiB)." in finding["what"]


def test_alarms_that_the_service_has_raised_about_queues_are_findings(good: RedisServer) -> None:
    alarm = Alarm("warning", "topic news", "Subscription 1 of topic news has got nothing.", "Mend.")
    with contextlib.closing(blocking.client(good.uri, PATIENT)) as store:
        RedisHistories(store).put_alarms({"shop": [alarm]}, {}, 60).run()
        code, (finding, *_) = _diagnosed("--storage", good.uri)
        RedisHistories(store).put_alarms({}, {}, 60).run()
    assert (code, finding["where"]) == (3, "topic news of project shop")
    assert (finding["what"], finding["remedy"]) == (alarm.text, alarm.remedy)


def test_a_store_that_persists_nothing_is_critical(good: RedisServer) -> None:
    with good.client() as client:
        client.config_set("appendonly", "no")
        client.config_set("save", "")
    code, found = _diagnosed("--storage", good.uri)
    assert code == 4
    assert "lost when it stops" in found[0]["what"]


@pytest.mark.nightly
def test_an_unreachable_store_and_pool_are_critical(good: RedisServer) -> None:
    code, found = _diagnosed("--storage", "unix:///nowhere.sock")
    assert code == 4
    assert "is away" in found[0]["what"]
    shell = CommandLine(["--storage", good.uri])
    with servers.redis_server() as pool:
        shell.done("pool", "create", "one", "--uri", pool.uri)
        _, found = _diagnosed("--storage", good.uri)
        assert {each["where"] for each in _of_stores(found)} == {"store one"}
    code, found = _diagnosed("--storage", good.uri)
    assert (code, found[0]["where"]) == (4, "store one")
    assert "is away" in found[0]["what"]
    shell.done("pool", "delete", "one", "--yes")


def test_a_user_who_may_not_read_settings_is_worth_knowing(good: RedisServer) -> None:
    with good.client() as client:
        client.execute_command("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-config")
    code, found = _diagnosed("--storage", good.uri.replace("unix://", "unix://app:pw@"))
    assert code == 0
    assert any("CONFIG or ACL is not allowed" in each["what"] for each in found)


def test_insecure_configurations_are_found(good: RedisServer, tmp_path: Path) -> None:
    file = servers.config_file(
        tmp_path,
        f"[storage]\nuri = {good.uri}\n[auth]\ninsecure = yes\n"
        "[drivers:transport:wsgi]\nbind = 0.0.0.0\n"
        "[channels]\ninsecure = yes\napi_insecure = yes\napi_key = secret\nallowed_origins = *\n"
        "token_any_project = yes\n",
    )
    Path(file).chmod(0o644)
    code, found = _diagnosed("--config-file", file)
    assert code == 4
    texts = {each["what"].split(":")[0]: each["severity"] for each in found}
    assert texts["[auth] insecure"] == "critical"
    assert texts["[channels] insecure"] == texts["[channels] api_insecure"] == "critical"
    assert texts["[channels] allowed_origins"] == "warning"
    assert texts["[channels] token_any_project"] == "warning"
    assert texts["Everybody on this machine can read its secrets."] == "warning"
    Path(file).chmod(0o600)
    assert not any("secrets" in each["what"] for each in _diagnosed("--config-file", file)[1])


@pytest.mark.parametrize("password", ["", "pw"])
def test_a_uri_in_a_file_that_everybody_can_read_is_a_secret_only_with_a_password(
    good: RedisServer, tmp_path: Path, password: str
) -> None:
    uri = good.uri.replace("unix://", f"unix://default:{password}@") if password else good.uri
    file = servers.config_file(tmp_path, f"[storage]\nuri = {uri}\n")
    Path(file).chmod(0o644)
    _, found = _diagnosed("--config-file", file)
    assert any("secrets" in each["what"] for each in found) == bool(password)


def test_problems_of_the_configuration_are_critical(good: RedisServer, tmp_path: Path) -> None:
    file = servers.config_file(tmp_path, "[auth]\nstrategy = magic\ncolour = blue\n")
    code, found = _diagnosed("--config-file", file, "--storage", good.uri)
    assert code == 4
    texts = " ".join(each["what"] for each in found)
    assert "magic" in texts
    assert "colour" in texts


def _unconfirmed(uri: str, folder: Path) -> list[str]:
    """Returns what is critical when each write must be on one replica."""
    text = f"[storage]\nuri = {uri}\n[redis]\nack_replicas = 1\n"
    _, found = _diagnosed("--config-file", servers.config_file(folder, text))
    return [each["what"] for each in found if "ack_replicas" in each["what"]]


@contextlib.contextmanager
def _replica_of(primary: RedisServer) -> Iterator[None]:
    with servers.redis_server() as replica, replica.client() as client, primary.client() as asked:
        client.replicaof("127.0.0.1", primary.open_port())
        servers.wait_for(
            lambda: asked.info("replication").get("slave0", {}).get("state") == "online",
            "the replica to be connected",
        )
        yield


def test_fewer_replicas_than_must_confirm_are_critical(good: RedisServer, tmp_path: Path) -> None:
    (what,) = _unconfirmed(good.uri, tmp_path)
    assert "Store default has 0 connected replicas, and [redis] ack_replicas is 1:" in what
    with _replica_of(good):
        assert _unconfirmed(good.uri, tmp_path) == []


@pytest.mark.nightly
def test_pool_may_have_its_own_number_of_replicas_that_must_confirm(good: RedisServer) -> None:
    shell = CommandLine(["--storage", good.uri])
    with servers.redis_server() as pool:
        with _replica_of(pool):
            options = json.dumps({"ack_replicas": 1})
            shell.done("pool", "create", "one", "--uri", pool.uri, "--options", options)
        _, found = _diagnosed("--storage", good.uri)
    shell.done("pool", "delete", "one", "--yes")
    (what,) = [each["what"] for each in found if "ack_replicas" in each["what"]]
    assert "Store one has 0 connected replicas, and [redis] ack_replicas is 1:" in what


@pytest.mark.nightly
def test_primary_of_a_cluster_with_fewer_replicas_than_must_confirm_is_critical(
    tmp_path: Path,
) -> None:
    with redis_cluster(replicas=2) as cluster:
        (what,) = _unconfirmed(cluster.uri, tmp_path)
    assert "has a primary with 0 connected replicas, and [redis] ack_replicas is 1:" in what


def test_node_of_a_cluster_that_is_named_alone_is_critical_and_says_what_to_write() -> None:
    with redis_cluster() as cluster:
        code, found = _diagnosed("--storage", f"redis://127.0.0.1:{cluster.primaries[0].port}")
    assert code == 4
    assert found[0]["what"].startswith("Store default cannot be used: ")
    assert "Its URI must begin with redis+cluster://" in found[0]["what"]
    assert found[0]["remedy"].startswith("Correct its URI")
