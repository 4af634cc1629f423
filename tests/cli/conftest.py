# SPDX-License-Identifier: Apache-2.0
"""Commands as a person calls them, at a service and straight at the store."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests import servers

ADMIN: dict[str, dict[str, object]] = {"DEFAULT": {"admin_mode": True}}


class Shell:
    """``zaqar-redis`` as a person calls it."""

    def __init__(self, where: list[str]) -> None:
        self._where = where

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "zaqar_redis.cli.main", *words, *self._where],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def done(self, *words: str) -> str:
        outcome = self.run(*words)
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout

    def shown(self, *words: str) -> Any:
        return json.loads(self.done(*words, "-f", "json"))

    def refused(self, *words: str) -> str:
        outcome = self.run(*words)
        assert outcome.returncode == 1
        assert outcome.stdout == ""
        assert "Traceback" not in outcome.stderr
        return outcome.stderr


@pytest.fixture(params=["storage", "url"])
def shell(request: pytest.FixtureRequest) -> Iterator[Shell]:
    with servers.redis_server() as home:
        if request.param == "storage":
            yield Shell(["--storage", home.uri])
        else:
            with servers.service(home.uri, options=ADMIN) as service:
                yield Shell(["--url", service.url])
