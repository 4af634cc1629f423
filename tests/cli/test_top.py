# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis top``, in a pseudo terminal and without one, and the commands for projects."""

from __future__ import annotations

import re
import signal

from tests.cli.conftest import ADMIN
from tests.support import servers
from tests.support.command_line import CommandLine
from tests.support.terminal import terminal
from zaqar_redis.keyspace import keys


def test_one_frame_shows_queues_by_what_is_asked_for(project_shell: CommandLine) -> None:
    project_shell.done("message", "post", "few", "1")
    project_shell.done("message", "post", "many", "1", "2", "3")
    project_shell.done("claim", "create", "many", "--limit", "2")
    by_total = project_shell.done("top", "--once", "--interval", "1").splitlines()
    assert "2 queues, 4 messages" in by_total[0]
    assert [line.split()[0] for line in by_total[2:]] == ["many", "few"]
    many = by_total[2].split()
    assert many[3:7] == ["1", "2", "0", "3"]  # free, claimed, delayed, total
    assert many[7:] == ["0.0"] * 4
    by_name = project_shell.done("top", "--once", "--interval", "1", "--sort", "queue")
    assert [line.split()[0] for line in by_name.splitlines()[2:]] == ["few", "many"]
    assert "many" not in project_shell.done("top", "--once", "--interval", "1", "--name", "few")


def test_queue_that_is_being_moved_is_unknown_and_the_others_are_shown() -> None:
    with servers.redis_server() as server, server.client() as client:
        shell = CommandLine(["--storage", server.uri, "--project", "p"])
        shell.done("message", "post", "moving", "1")
        shell.done("message", "post", "here", "1", "2")
        client.set(keys.of_queue("p", "moving").move_lock, b"out:mover")
        frame = shell.done("top", "--once", "--interval", "1").splitlines()
    assert "2 queues (1 unknown), 2 messages" in frame[0]
    assert {line.split()[0] for line in frame[2:]} == {"here", "moving"}


def test_one_frame_shows_the_stores(project_shell: CommandLine) -> None:
    shown = project_shell.done("top", "--once", "--interval", "1", "--stores")
    assert re.search(r"^default +[0-9.]+ ms *$", shown, re.M)


def test_live_view_without_a_terminal_is_refused(project_shell: CommandLine) -> None:
    assert "--once" in project_shell.refused("top")


def test_live_view_shows_rates_and_outages_and_ends_by_a_key() -> None:
    with servers.redis_server() as server, servers.service(server.uri, options=ADMIN) as service:
        shell = CommandLine(["--url", service.url])
        shell.done("message", "post", "orders", "1")
        with terminal("top", "--url", service.url, "--interval", "1", "--stores") as screen:
            screen.wait_for("orders")
            screen.wait_for("slowest operation")
            assert not screen.echoes
            shell.done("message", "post", "orders", *map(str, range(20)))
            servers.wait_for(
                lambda: bool(re.search(r"orders +\d+ s +21 .* [1-9][0-9.]* ", screen.shown)),
                "a rate",
            )
            server.stop()
            screen.wait_for("cannot be reached")
            screen.press("x")  # does nothing
            screen.press("q")
            assert screen.process.wait(60) == 0
            assert screen.echoes  # the terminal is as before
            assert "Traceback" not in screen.shown


def test_interrupted_live_view_leaves_the_terminal_as_it_was(shared_target: list[str]) -> None:
    with terminal("top", *shared_target) as screen:
        screen.wait_for("queues, ")
        screen.process.send_signal(signal.SIGINT)
        assert screen.process.wait(60) == 0
        assert screen.echoes
        assert "Traceback" not in screen.shown


def test_projects_are_listed_and_added_up(store_shell: CommandLine) -> None:
    for project, queue in (("one", "a"), ("one", "b"), ("two", "a")):
        store_shell.done("message", "post", queue, "1", "2", "--project", project)
    store_shell.done("claim", "create", "a", "--limit", "1", "--project", "one")
    assert store_shell.shown("project", "list") == [
        {"project": "one", "queues": 2},
        {"project": "two", "queues": 1},
    ]
    sums = store_shell.shown("project", "stats", "--project", "one")
    assert (sums["queues"], sums["total"], sums["free"], sums["claimed"]) == (2, 4, 3, 1)
    assert (sums["posted_total"], sums["claimed_total"]) == (4, 1)
    assert store_shell.shown("project", "stats", "--project", "none")["oldest_age"] is None


def test_projects_of_pools_are_listed_unless_one_is_away(store_shell: CommandLine) -> None:
    with servers.redis_server() as other:
        store_shell.done("pool", "create", "one", "--uri", other.uri)
        for number in range(8):
            store_shell.done("message", "post", f"q{number}", "1")
        assert store_shell.shown("project", "list") == [{"project": "default", "queues": 8}]
    assert "store one" in store_shell.refused("project", "list")
