# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis channel …``, at a service and at its store, while somebody is connected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import servers
from tests.cli.conftest import Shell
from tests.realtime.someone import LEFT_BEHIND, SECRET, Someone

pytestmark = LEFT_BEHIND

KEY = "the operator's key"
CHANNELS: dict[str, object] = {
    "token_hmac_secret_key": SECRET,
    "api_key": KEY,
    "presence": True,
    "history_size": 10,
    "history_ttl": 60,
    "allow_subscribe_for_client": True,
}
OPTIONS: dict[str, dict[str, object]] = {
    "channels": CHANNELS | {"namespaces": "bare"},
    "channels:bare": {"allow_subscribe_for_client": True},
}


class Place:
    """A service, and a shell that reaches it, or its store."""

    def __init__(self, service: servers.Service, shell: Shell) -> None:
        self.service = service
        self.shell = shell


@pytest.fixture(params=["storage", "url"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with (
        servers.redis_server() as home,
        servers.service(home.uri, workers=2, options=OPTIONS) as service,
    ):
        where = ["--url", service.url, "--api-key", KEY]
        if request.param == "storage":
            lines = []
            for group, values in OPTIONS.items():
                lines += [f"[{group}]", *(f"{name} = {value}" for name, value in values.items())]
            config = tmp_path / "zaqar_redis.conf"
            config.write_text("\n".join(lines))
            where = ["--storage", home.uri, "--config-file", str(config)]
        yield Place(service, Shell(where))


def test_channels_are_listed_shown_and_published_to_while_people_are_there(place: Place) -> None:
    shell = place.shell

    async def scenario() -> None:
        async with Someone(place.service, "ann") as ann, Someone(place.service, "bob") as bob:
            await ann.subscribe("news")
            await bob.subscribe("news")
            await bob.subscribe("bare:x")
            show = asyncio.to_thread
            assert await show(shell.shown, "channel", "list") == [
                {"channel": "bare:x", "clients": 1},
                {"channel": "news", "clients": 2},
            ]
            listed = await show(shell.shown, "channel", "list", "--pattern", "bare:*")
            assert [each["channel"] for each in listed] == ["bare:x"]
            done = await show(shell.shown, "channel", "publish", "news", '{"n": 1}')
            assert done["offset"] == 1
            assert await ann.next() == await bob.next() == ("publication", {"n": 1})
            about = await show(shell.shown, "channel", "info", "news")
            assert about["epoch"] == done["epoch"]
            del about["epoch"]
            assert about == {
                "channel": "news",
                "subscribers": 2,
                "clients": 2,
                "users": 2,
                "offset": 1,
            }
            bare = await show(shell.shown, "channel", "info", "bare:x")
            assert (bare["subscribers"], bare["clients"], bare["offset"]) == (1, None, None)
            there = await show(shell.shown, "channel", "presence", "news")
            assert sorted(each["user"] for each in there) == ["ann", "bob"]
            nodes = await show(shell.shown, "channel", "nodes")
            assert len(nodes) == 2
            assert sum(node["clients"] for node in nodes) == 2
            assert "--yes" in await show(shell.refused, "channel", "disconnect", "ann")
            await show(shell.done, "channel", "disconnect", "ann", "--yes", "--reason", "enough")
            assert await ann.next() == ("disconnected", (3503, "enough"))
            assert bob.news.empty()

    asyncio.run(scenario())


@pytest.mark.parametrize("place", ["storage"], indirect=True)
def test_history_is_listed_from_where_it_is_wanted(place: Place) -> None:
    shell = place.shell
    for word in ("a", "b", "c"):
        shell.done("channel", "publish", "news", word)
    assert [each["data"] for each in shell.shown("channel", "history", "news")] == ["a", "b", "c"]
    since = shell.shown("channel", "history", "news", "--since", "1", "--limit", "1")
    assert [(each["offset"], each["data"]) for each in since] == [(2, "b")]
    back = shell.shown("channel", "history", "news", "--reverse", "--limit", "2")
    assert [each["data"] for each in back] == ["c", "b"]
    key = ("--idempotency-key", "k")
    first = shell.shown("channel", "publish", "news", "d", *key)
    assert shell.shown("channel", "publish", "news", "d", *key) == first
    binary = {"channel": "news", "b64data": "AP8="}
    headers = {"X-API-Key": KEY}
    httpx.post(f"{place.service.url}/api/publish", json=binary, headers=headers)
    (shown,) = shell.shown("channel", "history", "news", "--reverse", "--limit", "1")
    assert (shown["offset"], shown["data"]) == (5, {"b64data": "AP8="})


def test_what_cannot_be_done_is_said(place: Place) -> None:
    assert "unknown channel (102)" in place.shell.refused("channel", "publish", "no:x", "1")
    assert "unknown channel (102)" in place.shell.refused("channel", "info", "no:x")
    assert "not available (108)" in place.shell.refused("channel", "history", "bare:x")
    if "--url" in place.shell.where:
        place.shell.where[-1] = "wrong"
        told = place.shell.refused("channel", "list")
        assert "--api-key" in told
        assert "or has none" in told


@pytest.mark.parametrize(
    "words", [("publish", "news", "1"), ("info", "news"), ("history", "news"), ("presence", "news")]
)
def test_the_store_alone_does_not_know_the_options_of_channels(words: tuple[str, ...]) -> None:
    told = Shell(["--storage", "redis://127.0.0.1:1"]).refused("channel", *words)
    assert told == (
        "--storage needs the service's configuration: give --config-file, or ask the service by "
        "--url\n"
    )


def test_a_store_that_is_away_is_told_once() -> None:
    told = Shell(["--storage", "redis://127.0.0.1:1"]).refused("channel", "list")
    assert told == "the store redis://127.0.0.1:1 does not answer as it should (100)\n"


def test_a_service_without_channels_is_told(tmp_path: Path) -> None:
    config = tmp_path / "zaqar_redis.conf"
    config.write_text("[channels]\nenabled = false\n")
    with servers.redis_server() as home:
        shell = Shell(["--storage", home.uri, "--config-file", str(config)])
        assert shell.refused("channel", "nodes") == "the service has no channels\n"
