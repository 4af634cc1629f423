# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis channel …`` against a service and its store, with connected clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.realtime.crowd import until
from tests.realtime.routed_client import RoutedClient
from tests.realtime.sdk_client import IGNORE_UNCLOSED_SOCKETS, SECRET, SdkClient
from tests.support import servers
from tests.support.command_line import CommandLine, without_store
from tests.support.tiers import in_gate

pytestmark = IGNORE_UNCLOSED_SOCKETS

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


class ChannelsCli:
    """A service, and a shell whose target is it or its store."""

    def __init__(self, service: servers.RunningService, shell: CommandLine) -> None:
        self.service = service
        self.shell = shell


@pytest.fixture(scope="module", params=in_gate(["storage", "url"], "url"))
def cli_target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ChannelsCli]:
    """The tests of the file share them: each has channels of its own."""
    with (
        servers.redis_server() as server,
        servers.service(server.uri, workers=2, options=OPTIONS) as service,
    ):
        target_options = ["--url", service.url, "--api-key", KEY]
        if request.param == "storage":
            folder = tmp_path_factory.mktemp("channels")
            config = servers.config_file(folder, servers.config_text(OPTIONS))
            target_options = ["--storage", server.uri, "--config-file", config]
        yield ChannelsCli(service, CommandLine(target_options))


async def test_channel_commands_with_connected_clients(cli_target: ChannelsCli) -> None:
    shell = cli_target.shell

    async with (
        SdkClient(cli_target.service, "ann") as ann,
        SdkClient(cli_target.service, "bob") as bob,
    ):
        await ann.subscribe("news")
        await bob.subscribe("news")
        await bob.subscribe("bare:x")
        show = asyncio.to_thread
        everything = await show(shell.shown, "channel", "list")
        assert [(each["channel"], each["subscribers"]) for each in everything] == [
            ("bare:x", 1),
            ("news", 2),
        ]
        listed = await show(shell.shown, "channel", "list", "--pattern", "bare:*")
        assert [each["channel"] for each in listed] == ["bare:x"]
        done = await show(shell.shown, "channel", "publish", "news", '{"n": 1}')
        assert done["offset"] == 1
        assert await ann.next() == await bob.next() == ("publication", {"n": 1})
        info = await show(shell.shown, "channel", "info", "news")
        assert info.pop("epoch") == done["epoch"]
        del info["published_per_second"]
        assert info == {
            "channel": "news",
            "subscribers": 2,
            "clients": 2,
            "users": 2,
            "offset": 1,
        }
        bare = await show(shell.shown, "channel", "info", "bare:x")
        assert (bare["subscribers"], bare["clients"], bare["offset"]) == (1, None, None)
        present = await show(shell.shown, "channel", "presence", "news")
        assert sorted(each["user"] for each in present) == ["ann", "bob"]

        def has_nodes() -> bool:  # a node that is busy for a second is not shown
            nodes = shell.shown("channel", "nodes")
            return [len(nodes), sum(node["clients"] for node in nodes)] == [2, 2]

        await show(servers.wait_for, has_nodes, "two nodes with two clients")
        assert "--yes" in await show(shell.refused, "channel", "disconnect", "ann")
        await show(shell.done, "channel", "disconnect", "ann", "--yes", "--reason", "enough")
        assert await ann.next() == ("disconnected", (3503, "enough"))
        assert bob.events.empty()

        def has_rate() -> bool:
            shell.done("channel", "publish", "bare:x", "1")
            (listed,) = shell.shown("channel", "list", "--pattern", "bare:x")
            shown = shell.shown("channel", "info", "bare:x")
            return all(each["published_per_second"] for each in (listed, shown))

        await show(servers.wait_for, has_rate, "a rate")


@pytest.mark.parametrize("cli_target", ["storage"], indirect=True)
def test_message_is_sent_to_a_user_a_connection_and_everybody(cli_target: ChannelsCli) -> None:
    async def scenario() -> None:
        async with RoutedClient(cli_target.service, "eve") as client:
            for number, to in enumerate(
                (["--user", "eve"], ["--connection", client.id], ["--broadcast"])
            ):
                words = ["channel", "send", str(number), "--type", "greeting", *to]
                await asyncio.to_thread(cli_target.shell.done, *words)
            await until(lambda: len(client.received) == 3, "three messages")
            assert client.received == [0, 1, 2]

    asyncio.run(scenario())
    refused = cli_target.shell.refused("channel", "send", "x", "--user", "x" * 256)
    assert "target: 1 to 255 characters, not 256" in refused
    assert "not 0" in cli_target.shell.refused("channel", "send", "x", "--user", "")


def test_history_is_listed_from_any_offset_in_both_directions(cli_target: ChannelsCli) -> None:
    shell = cli_target.shell
    for word in ("a", "b", "c"):
        shell.done("channel", "publish", "old", word)
    assert [each["data"] for each in shell.shown("channel", "history", "old")] == ["a", "b", "c"]
    since = shell.shown("channel", "history", "old", "--since", "1", "--limit", "1")
    assert [(each["offset"], each["data"]) for each in since] == [(2, "b")]
    back = shell.shown("channel", "history", "old", "--reverse", "--limit", "2")
    assert [each["data"] for each in back] == ["c", "b"]
    key = ("--idempotency-key", "k")
    first = shell.shown("channel", "publish", "old", "d", *key)
    assert shell.shown("channel", "publish", "old", "d", *key) == first
    binary = {"channel": "old", "b64data": "AP8="}
    headers = {"X-API-Key": KEY}
    url = f"{cli_target.service.url}/api/publish"
    httpx.post(url, json=binary, headers=headers, timeout=30).raise_for_status()
    (shown,) = shell.shown("channel", "history", "old", "--reverse", "--limit", "1")
    assert (shown["offset"], shown["data"]) == (5, {"b64data": "AP8="})


def test_refused_channel_command_reports_the_reason(cli_target: ChannelsCli) -> None:
    assert "unknown channel (102)" in cli_target.shell.refused("channel", "publish", "no:x", "1")
    assert "unknown channel (102)" in cli_target.shell.refused("channel", "info", "no:x")
    message = cli_target.shell.refused("channel", "history", "bare:x")
    assert "not available (108)" in message
    assert "history_size" in message
    if "--url" in cli_target.shell.target_options:
        stranger = CommandLine([*cli_target.shell.target_options[:-1], "wrong"])
        message = stranger.refused("channel", "list")
        assert "--api-key" in message
        assert "or has none" in message


@pytest.mark.parametrize(
    "words",
    [
        ("publish", "news", "1"),
        *(("info", "news"), ("history", "news"), ("presence", "news")),
        ("send", "1", "--user", "ann"),
    ],
)
def test_storage_target_without_configuration_is_refused(words: tuple[str, ...]) -> None:
    message = without_store().refused("channel", *words)
    assert message == (
        "--storage needs the service's configuration: give --config-file, or ask the service by "
        "--url\n"
    )


@pytest.mark.nightly
def test_unreachable_store_is_reported_once() -> None:
    message = without_store().refused("channel", "list")
    assert message == (
        "The store redis://127.0.0.1:1 cannot be reached at the moment. Please try again in a few "
        "seconds.\n"
    )


def test_disabled_channels_are_reported(tmp_path: Path) -> None:
    config = servers.config_file(tmp_path, "[channels]\nenabled = false\n")
    with servers.redis_server() as server:
        shell = CommandLine(["--storage", server.uri, "--config-file", config])
        assert shell.refused("channel", "nodes") == "the service has no channels\n"
