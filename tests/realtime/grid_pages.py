# SPDX-License-Identifier: Apache-2.0
"""Runs examples/grid, and opens its pages."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize

from tests.conventions.files import ROOT
from tests.support import servers

_PAGE = re.compile(r"(http\S+)   a player at node \d, on port (\d+)")


class RunningGrid:
    """*lines*: of its output, so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        servers.wait_for(lambda: len(self.pages) == 2 or self.has_ended, "the grid to start")
        assert not self.has_ended, self.lines

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self.lines.append(line.rstrip())

    @property
    def pages(self) -> list[tuple[str, int]]:
        """The address of each node's page, and the port of the node."""
        return [(found[1], int(found[2])) for found in map(_PAGE.match, self.lines) if found]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def interrupt(self) -> int:
        """Ends it as Ctrl-C does; returns its exit status."""
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(60)
        finally:
            self._process.kill()
            self._reader.join()
            assert self._process.stdout
            self._process.stdout.close()


@contextlib.contextmanager
def grid(*options: str) -> Iterator[RunningGrid]:
    """Runs it, and checks that Ctrl-C ends it and its nodes."""
    command = [sys.executable, "-m", "examples.grid", "--port", "0", "--open", "no", *options]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    running = RunningGrid(process)
    try:
        yield running
    finally:
        status = running.interrupt()
    assert status == 0, running.lines
    for _, port in running.pages:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


@contextlib.contextmanager
def player(
    browser: Browser, url: str, x: float, y: float, size: ViewportSize, words: str = ""
) -> Iterator[Page]:
    """Opens a page in a context of its own, once it is subscribed to all that it shows."""
    errors: list[str] = []
    with browser.new_context(viewport=size) as context:
        context.on("weberror", lambda error: errors.append(str(error.error)))
        page = context.new_page()
        page.goto(f"{url}&at={x},{y}{words}")
        page.wait_for_function("window.grid?.complete")
        yield page
    assert errors == []


def state(page: Page, what: str) -> Any:
    """Returns a property of the page's state."""
    return page.evaluate(f"grid.{what}")


def name_of(page: Page) -> str:
    return str(state(page, "me.user"))


def wait_until(page: Page, condition: str, argument: object = None) -> None:
    """Waits for a condition of JavaScript, at every frame."""
    page.wait_for_function(condition, arg=argument, timeout=30_000)
