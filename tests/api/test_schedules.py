# SPDX-License-Identifier: Apache-2.0
"""Recurring posts over HTTP."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis

from tests.api.client import ZaqarTestClient
from tests.support import servers
from tests.support.backends import Backend
from zaqar_redis.keyspace import keys
from zaqar_redis.keyspace.control_keys import ScheduleKeys

TICK = {"queue": "jobs", "cron": "* * * * *", "message": {"body": {"a": [1]}}}


def put(api: ZaqarTestClient, name: str = "tick", **changes: Any) -> dict[str, Any]:
    answer = api.request("PUT", f"/schedules/{name}", {**TICK, **changes})
    assert answer.status_code in (200, 201), answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_schedules_are_created_shown_listed_replaced_and_deleted(api: ZaqarTestClient) -> None:
    message = {
        "body": "ä",
        "ttl": 60,
        "delay": 0,
        "attributes": {"n": 1, "b": {"binary": "AP8="}},
        "group": "ann",
        "priority": 7,
    }
    given = {
        "queue": "jobs",
        "cron": "30 9 * * MON-FRI",
        "timezone": "Europe/Paris",
        "from": "2031-01-04T00:00:00+01:00",
        "until": "2031-12-31",
        "message": message,
        "paused": False,
        "missed": "skip",
    }
    answer = api.request("PUT", "/schedules/report", given)
    assert answer.status_code == 201
    shown = {"name": "report", "href": "/v2/schedules/report", **given}
    shown |= {"from": "2031-01-03T23:00:00Z", "until": "2031-12-31T00:00:00Z"}
    shown["next"] = "2031-01-06T08:30:00Z"  # a Monday
    assert answer.json() == api.get("/schedules/report").json() == shown
    assert api.request("PUT", "/schedules/report", given | {"paused": True}).status_code == 200
    assert "next" not in api.get("/schedules/report").json()

    put(api, "a")
    page = api.get("/schedules", limit=1).json()
    assert [each["name"] for each in page["schedules"]] == ["a"]
    page = api.follow(page["links"][0]["href"]).json()
    assert [each["name"] for each in page["schedules"]] == ["report"]
    assert api.another_client("another").get("/schedules").json() == {"schedules": [], "links": []}
    for _ in range(2):
        assert api.request("DELETE", "/schedules/a").status_code == 204
    assert api.get("/schedules/a").status_code == 404
    assert len(api.get("/schedules").json()["schedules"]) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cron": "* * * *"}, ['"cron"', "5 fields"]),
        ({"cron": "0 0 30 2 *"}, ['"cron"', "day-of-month"]),
        ({"cron": 5}, ["$.cron"]),
        ({"timezone": "Mars/Base"}, ['"timezone"']),
        ({"timezone": ""}, ['"timezone"', "IANA"]),
        ({"queue": "a b"}, ['"queue"', "64"]),
        ({"from": "tomorrow"}, ['"from"', "ISO 8601"]),
        ({"from": "2031-01-02", "until": "2031-01-01"}, ['"until"', '"from"']),
        ({"missed": "all"}, ['"missed"', "latest, skip"]),
        ({"paused": "yes"}, ["$.paused"]),
        ({"message": {}}, ["body"]),
        ({"message": {"body": 1, "ttl": 1}}, ['"ttl"', "60"]),
        ({"message": {"body": 1, "delay": -1}}, ['"delay"', "0"]),
        ({"message": {"body": 1, "deliver_at": "2031-01-01"}}, ['"deliver_at"']),
        ({"message": {"body": 1, "dedup_id": "a"}}, ['"dedup_id"']),
        ({"message": {"body": 1, "dely": 5}}, ["dely"]),
        ({"until": "2020-01-01"}, ['"cron" is not due any more']),
        ({"timezone": "localtime"}, ['"timezone"', "IANA"]),
        ({"cron": "60 * * * *"}, ['"cron"', "minute (0-59)"]),
        ({"message": {"body": 1, "priority": 32}}, ['"priority"', "31"]),
        ({"message": {"body": "x" * 65_536}}, ["65536 bytes"]),
        ({"message": {"body": 1, "attributes": {"a b": 1}}}, ['"attributes"']),
    ],
)
def test_bad_schedules_are_refused_and_change_nothing(
    api: ZaqarTestClient, changes: dict[str, Any], words: list[str]
) -> None:
    before = put(api)
    answer = api.request("PUT", "/schedules/tick", {**TICK, **changes})
    assert answer.status_code == 400
    for word in words:
        assert word in answer.json()["description"]
    assert api.get("/schedules/tick").json() == before


def test_bad_names_are_refused(api: ZaqarTestClient) -> None:
    for name in ("a%20b", "x" * 65):
        for method in ("PUT", "GET", "DELETE"):
            answer = api.request(method, f"/schedules/{name}", *([TICK] if method == "PUT" else []))
            assert (answer.status_code, "64" in answer.text) == (400, True)


def test_what_is_due_is_posted_once_by_the_service(
    api: ZaqarTestClient, redis_server: Backend
) -> None:
    put(api)
    entry = keys.entry(api.project, "tick")
    due = int(time.time()) // 60 * 60_000 - 60_000  # as if no service had run for a minute
    with redis.Redis.from_url(redis_server.uri) as store:
        of_schedule = ScheduleKeys(entry)
        store.hset(of_schedule.schedule, "next", due)
        store.zadd(of_schedule.due_schedules, {entry: due})
    servers.wait_for(lambda: "last" in api.get("/schedules/tick").json(), "a post")
    api.request("PUT", "/schedules/tick", TICK | {"paused": True})
    page = api.get("/queues/jobs/messages").json()
    # One more if a minute began meanwhile.
    assert [message["body"] for message in page["messages"]] in ([{"a": [1]}], [{"a": [1]}] * 2)
    assert "failure" not in api.get("/schedules/tick").json()
