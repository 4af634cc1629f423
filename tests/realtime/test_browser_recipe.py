# SPDX-License-Identifier: Apache-2.0
"""The progress bar of doc/recipes.md, in a real browser."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.client import frameworks, recipes
from tests.realtime.test_browser import served
from tests.support import servers


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def _options(folder: Path) -> dict[str, dict[str, object]]:
    recipes.write(folder, "progress.conf")
    parser = configparser.ConfigParser()
    parser.read(folder / "progress.conf")
    return {group: dict(parser[group]) for group in parser.sections()}


def _sdk(folder: Path, address: str) -> Path:
    """Returns the file that the page loads from the network."""
    name = address.removeprefix("https://unpkg.com/").partition("/dist/")[0]
    npm = ["npm", "pack", "--silent", name]
    subprocess.run(npm, cwd=folder, check=True, timeout=60, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "package" / "dist" / "centrifuge.js"


def test_progress_of_a_job_fills_the_bar_also_of_a_page_that_is_opened_later(
    page: Page, tmp_path: Path
) -> None:
    def load(route: Route) -> None:
        route.fulfill(path=_sdk(tmp_path, route.request.url))

    page.route("https://unpkg.com/**", load)
    with servers.service("memory://", options=_options(tmp_path)) as running:
        address = running.url.removeprefix("http://")
        recipes.write(tmp_path, "films.py", "progress.html", address=address)
        _, place = recipes.command("zaqar-redis-worker films:worker")
        command = [sys.executable, "-m", "zaqar_redis_client.command", place]
        log = tmp_path / "worker.log"
        worker = servers.start_logged(command, log, frameworks.PATH, tmp_path)
        with served(tmp_path) as pages, servers.stopping(worker):
            page.goto(f"{pages}/progress.html")
            post = 'import films; films.encode.post_blocking("film-7")'
            recipes.command(f"python -c '{post}'")
            subprocess.run(
                [sys.executable, "-c", post],
                cwd=tmp_path,
                env=os.environ | frameworks.PATH,
                check=True,
            )
            full = "document.getElementById('bar').value === 100"
            page.wait_for_function(full, timeout=60_000)
            page.reload()
            page.wait_for_function(full, timeout=60_000)
