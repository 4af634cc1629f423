# SPDX-License-Identifier: Apache-2.0
"""Listings of any length are printed while their pages are read."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from tests.support import servers
from tests.support.command_line import CommandLine, logging_restored
from tests.support.tiers import in_gate
from zaqar_redis.cli.api import open_api
from zaqar_redis.cli.main import main
from zaqar_redis.cli.target import CommandTarget

#: More than two tables of messages; pages of other things.
_MESSAGES, _OTHERS = 2100, 121


@dataclass
class _LongStore:
    """A store with more of everything than a page has."""

    server: servers.RedisServer

    @property
    def shell(self) -> CommandLine:
        return CommandLine(["--storage", self.server.uri])

    def reads(self) -> int:
        """Counts what listings send; at its start a command runs some scripts, too."""
        with self.server.client() as client:
            calls = client.info("commandstats")
        names = ("cmdstat_evalsha", "cmdstat_zrangebylex")
        return sum(calls[name]["calls"] for name in names if name in calls)


@pytest.fixture(scope="module")
def long_store() -> Iterator[_LongStore]:
    with servers.redis_server() as server:
        given = argparse.Namespace(
            config_file=None, client_id=uuid.uuid4().hex, token="", project=None
        )
        bodies = [{"body": number} for number in range(_MESSAGES)]
        with logging_restored(), open_api(given, CommandTarget("", uri=server.uri)) as api:
            api.request("POST", "/queues/big/messages", {"messages": bodies})
            for number in range(_OTHERS):
                subscription = {"subscriber": f"http://192.0.2.1/{number}", "ttl": 3600}
                api.request("PUT", f"/queues/q{number}", {})
                api.request("PUT", f"/topics/t{number}", {})
                api.request("POST", "/queues/big/subscriptions", subscription)
        yield _LongStore(server)


class _InterruptedOutput(io.StringIO):
    """Ctrl-C as soon as something is written."""

    def write(self, text: str) -> int:
        raise KeyboardInterrupt


def _interrupted(words: list[str]) -> tuple[int, str]:
    err = io.StringIO()
    with (
        contextlib.redirect_stdout(_InterruptedOutput()),
        contextlib.redirect_stderr(err),
        logging_restored(),
    ):
        return main(words), err.getvalue()


@pytest.mark.parametrize(
    "words",
    in_gate(
        [
            *(f"message list big -f {name}" for name in ("json", "csv", "yaml", "value", "table")),
            "message peek big --limit 1000 -f json",
            "topic list -f json",
            "queue list -f csv",
            "subscription list --queue big -f value",
        ],
        *("message list big -f json", "message list big -f table", "queue list -f csv"),
    ),
)
def test_listing_interrupted_at_its_first_row_has_read_a_part(
    long_store: _LongStore, words: str
) -> None:
    shell = long_store.shell
    began = long_store.reads()
    shell.done(*words.split())
    complete = long_store.reads() - began
    code, notices = _interrupted([*words.split(), *shell.target_options])
    assert (code, notices.endswith("\ninterrupted\n")) == (130, True)
    assert "Traceback" not in notices
    part = long_store.reads() - began - complete
    assert part < 0.7 * complete


def test_long_listing_is_what_one_document_of_all_rows_would_be(long_store: _LongStore) -> None:
    shell, words = long_store.shell, ("message", "list", "big", "--limit", "45", "-c", "body")
    rows = [{"body": number} for number in range(45)]
    assert shell.done(*words, "-f", "json") == json.dumps(rows, indent=2) + "\n"
    assert shell.done(*words, "-f", "json", "--noindent") == json.dumps(rows) + "\n"
    written = shell.done(*words, "-f", "yaml")
    assert written == yaml.safe_dump(yaml.safe_load(written), default_flow_style=False)
    shell.done("queue", "create", "nothing")
    for name in ("json", "yaml"):
        assert shell.done("message", "list", "nothing", "-f", name) == "[]\n"


def test_csv_has_texts_as_they_are(long_store: _LongStore) -> None:
    text = 'a "quoted" \\ text,\nof two lines'
    long_store.shell.done("message", "post", "texts", json.dumps(text))
    written = long_store.shell.done("message", "list", "texts", "-c", "body", "-f", "csv")
    [_, [body]] = csv.reader(io.StringIO(written))
    assert json.loads(body) == text


def test_long_table_has_its_heading_every_thousand_rows(long_store: _LongStore) -> None:
    shown = long_store.shell.done("message", "list", "big")
    assert shown.count("| body |") == 3
    sort = ("--sort-column", "body", "--limit", "1001")
    assert long_store.shell.done("message", "list", "big", *sort).count("| body |") == 1


def test_listing_that_is_refused_prints_nothing(long_store: _LongStore) -> None:
    for name in ("csv", "json"):
        long_store.shell.refused("message", "list", "big", "--project", "x" * 300, "-f", name)
