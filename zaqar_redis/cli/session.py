# SPDX-License-Identifier: Apache-2.0
"""How commands reach queues: at a service, or straight at the store.

Both are the same REST calls: straight at the store they are answered by the
service's own code in this process, so that a command does the same either way.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
from cliff.command import Command
from oslo_config import cfg

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.api.app import App
from zaqar_redis.cli import configured
from zaqar_redis.keyspace import embedded

#: Seconds for one request; the longest is to make a pool whose store is slow to answer.
_TIMEOUT = 60.0
#: Items in a page, when all are wanted.
_PAGE = 20


class Refused(Exception):
    """The service says no; the text says why."""


class Session:
    """Requests of one command."""

    def __init__(self, client: httpx.AsyncClient, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def ask(self, method: str, path: str, document: object | None = None, **query: object) -> Any:
        """The answer's document, or None.  Raises Refused.

        *path* is below ``/v2``; a *query* parameter that is None is left out.
        """
        return self._runner.run(self._ask(method, path, document, query))

    def pause(self, seconds: float) -> None:
        """Let time pass, also for what goes on in this process."""
        self._runner.run(asyncio.sleep(seconds))

    async def _ask(
        self, method: str, path: str, document: object | None, query: dict[str, object]
    ) -> Any:
        given = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in query.items()
            if value is not None
        }
        try:
            answer = await self._client.request(
                method,
                f"/v2{path}",
                params=given,  # type: ignore[arg-type]  # texts and numbers
                content=None if document is None else msgspec.json.encode(document),
            )
        except httpx.HTTPError as error:
            raise Refused(f"{self._client.base_url}: {error or type(error).__name__}") from error
        if answer.status_code >= 400:
            raise Refused(_why(answer))
        return answer.json() if answer.content else None

    def pages(self, path: str, items: str, **query: object) -> Iterator[dict[str, Any]]:
        """Every item of a listing, page by page."""
        marker: str | None = None
        while True:
            page = self.ask("GET", path, marker=marker, limit=_PAGE, **query)
            yield from page[items]
            if len(page[items]) < _PAGE:
                return
            marker = page[items][-1]["id" if items == "messages" else "name"]


def _why(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["description"])
    except (ValueError, KeyError, TypeError):
        if answer.status_code == 404:  # no such route: it has a description otherwise
            return "not found; is the service in admin mode (serve --admin)?"
        return f"the service answers {answer.status_code}"


@contextlib.contextmanager
def opened(parsed: argparse.Namespace) -> Iterator[Session]:
    """A session as the command line says.  Raises BadConfiguration."""
    for talkative in ("httpx", "zaqar_redis"):  # a command says what was asked for
        logging.getLogger(talkative).setLevel(logging.WARNING)
    headers = {"Client-ID": parsed.client_id, "X-Project-ID": parsed.project}
    with asyncio.Runner() as runner, contextlib.ExitStack() as stack:
        if parsed.url:
            client = httpx.AsyncClient(base_url=parsed.url, headers=headers, timeout=_TIMEOUT)
        else:
            app = stack.enter_context(_in_process(parsed, runner))
            client = httpx.AsyncClient(
                base_url="http://store",
                headers=headers,
                timeout=_TIMEOUT,
                transport=httpx.ASGITransport(app=app),  # type: ignore[arg-type]  # an ASGI app
            )
        try:
            yield Session(client, runner)
        finally:
            runner.run(client.aclose())


@contextlib.contextmanager
def _in_process(parsed: argparse.Namespace, runner: asyncio.Runner) -> Iterator[App]:
    try:
        conf = configuration.load([], parsed.config_file)
    except (cfg.Error, ValueError) as error:
        raise errors.BadConfiguration(str(error)) from error
    uri = parsed.storage or conf.storage.uri
    with contextlib.ExitStack() as stack:
        if urlsplit(uri).scheme == "embedded":
            uri = stack.enter_context(embedded.running(uri))
        settings = msgspec.structs.replace(configured.settings(conf), admin_mode=True)
        app = App(configured.driver(conf, uri)(), settings)
        runner.run(app.process_startup(None, None))
        try:
            yield app
        finally:
            runner.run(app.process_shutdown(None, None))


class Talking(Command):
    """Base of the commands that ask a service or a store."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        where = parser.add_argument_group("where")
        where.add_argument("--url", help="a service, e.g. http://127.0.0.1:8888")
        where.add_argument(
            "--storage", metavar="URI", help="or the store itself (that of the configuration)"
        )
        where.add_argument(
            "--config-file", action="append", metavar="FILE", help="configuration file"
        )
        where.add_argument("--project", default="default", help="whose queues (default)")
        where.add_argument(
            "--client-id", default=str(uuid.uuid4()), metavar="UUID", help="who asks (anybody)"
        )
        return parser

    def opened(self, parsed: argparse.Namespace) -> contextlib.AbstractContextManager[Session]:
        return opened(parsed)


class Destructive(Talking):
    """Base of the commands that ask before they begin."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--yes", action="store_true", help="do not ask")
        return parser

    def confirm(self, parsed: argparse.Namespace, what: str) -> None:
        """Raises Refused unless it is said, here or by ``--yes``."""
        if parsed.yes:
            return
        if not sys.stdin.isatty():
            raise Refused(f"{what}? Say so with --yes.")
        if input(f"{what}? [y/N] ").strip().lower() not in ("y", "yes"):
            raise Refused("Nothing was done.")
