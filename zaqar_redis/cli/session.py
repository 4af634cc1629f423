# SPDX-License-Identifier: Apache-2.0
"""How commands reach queues: at a service, or straight at the store.

Both are the same REST calls: straight at the store they are answered by the
service's own code in this process, so that a command does the same either way.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import enum
import json
import logging
import sys
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
from cliff.command import Command

from zaqar_redis import conf as configuration
from zaqar_redis import errors, rules
from zaqar_redis.api.app import App
from zaqar_redis.cli import configured, target
from zaqar_redis.cli.target import CommandTarget
from zaqar_redis.keyspace import embedded
from zaqar_redis.realtime import codes
from zaqar_redis.runner import Runner
from zaqar_redis.storage.driver import Driver

#: Seconds for one request; the longest is to make a pool whose store is slow to answer.
_TIMEOUT = 60.0
#: Items in a page, when all are wanted.
PAGE = 20
#: Seconds until another try at a service that does not say when.
_AGAIN = 1.0
#: What services, and proxies before them, answer when it is not their day.
_AWAY = (502, 503, 504)


class Refused(Exception):
    """The service says no; the text says why."""


class Away(Refused):
    """There is no service, or none at the moment: to ask again in *seconds* may help."""

    def __init__(self, why: str, seconds: float = _AGAIN) -> None:
        super().__init__(why)
        self.seconds = seconds


class Session:
    """Requests of one command."""

    def __init__(self, client: httpx.AsyncClient, runner: Runner, at: CommandTarget) -> None:
        self._client = client
        self._runner = runner
        self._target = at

    def ask(self, method: str, path: str, document: object | None = None, **query: object) -> Any:
        """The answer's document, or None.  Raises Refused, Away.

        *path* is below ``/v2``; a *query* parameter that is None is left out.
        """
        return self._runner.run(self._answer, method, f"/v2{path}", document, query)

    def call(self, method: str, **body: object) -> Any:
        """The result of a method of the server API.  Raises Refused, Away.

        A field that is None is left out.
        """
        given = {name: value for name, value in body.items() if value is not None}
        answer = self._runner.run(self._answer, "POST", f"/api/{method}", given, {})
        if "error" in answer:
            raise self._refusal(answer["error"])
        return answer.get("result", answer)  # the results of a batch stand for themselves

    def batch(self, *commands: dict[str, object], may_be_off: int) -> list[dict[str, Any]]:
        """Replies by method; what is off, with this code, has none.  Raises Refused, Away."""
        replies = self.call("batch", commands=list(commands))["replies"]
        for error in (reply["error"] for reply in replies if "error" in reply):
            if error["code"] != may_be_off:
                raise self._refusal(error)
        return list(replies)

    def _refusal(self, error: dict[str, Any]) -> Refused:
        if error["code"] == codes.INTERNAL.code:
            at = self._target
            why = "the service, or its store," if at.url else f"the store {at.store}"
            return Away(f"{why} does not answer as it should ({error['code']})")
        return Refused(f"{error['message']} ({error['code']})")

    def pause(self, seconds: float) -> None:
        """Let time pass, also for what goes on in this process."""
        self._runner.run(asyncio.sleep, seconds)

    async def _answer(
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
                path,
                params=given,  # type: ignore[arg-type]  # texts and numbers
                content=None if document is None else msgspec.json.encode(document),
            )
        except httpx.HTTPError as error:
            why = f"{self._target} does not answer: {errors.reason(error)}"
            advice = f"; {target.advice()}" if self._target.assumed else ""
            raise Away(f"{why}{advice}") from error
        if answer.status_code in _AWAY:
            raise Away(_why(answer), _seconds(answer))
        if answer.status_code >= 400:
            raise Refused(_why(answer))
        return answer.json() if answer.content else None

    def pages(self, path: str, items: str, **query: object) -> Iterator[dict[str, Any]]:
        """Every item of a listing, page by page."""
        marker: str | None = None
        while True:
            page = self.ask("GET", path, marker=marker, limit=PAGE, **query)
            yield from page[items]
            if len(page[items]) < PAGE:
                return
            marker = page[items][-1]["id" if items == "messages" else "name"]


def _why(answer: httpx.Response) -> str:
    if answer.status_code == 401:
        return (
            "the service wants another API key (--api-key, or the variable ZAQAR_REDIS_API_KEY), "
            "or has none ([channels] api_key)"
        )
    try:
        return str(answer.json()["description"])
    except (ValueError, KeyError, TypeError):
        if answer.status_code == 404:  # no such route: it has a description otherwise
            if answer.request.url.path.startswith("/api/"):
                return "the service has no channels"
            return (
                "the service has no such address; pools, flavors and health want admin mode "
                "(serve --admin), or a command that works at the store (--storage)"
            )
        return f"the service answers {answer.status_code}"


def _seconds(answer: httpx.Response) -> float:
    """When to come again, but not at once; a date is as good as nothing here."""
    text = answer.headers.get("Retry-After", "")
    return max(_AGAIN, float(text)) if text.isdecimal() else _AGAIN


def _keep_quiet(channels: bool = False) -> None:
    for talkative in ("httpx", "zaqar_redis"):  # a command says what was asked for
        logging.getLogger(talkative).setLevel(logging.WARNING)
    if channels:  # a store that is away is told once, by the command
        for room in ("batch", "listening"):
            logging.getLogger(f"zaqar_redis.keyspace.{room}").setLevel(logging.ERROR)


class Needs(enum.Enum):
    """What a command does not work without."""

    QUEUES = enum.auto()
    CHANNELS = enum.auto()
    #: ... and their options, as the service has them
    NAMESPACES = enum.auto()


@contextlib.contextmanager
def opened(
    parsed: argparse.Namespace, at: CommandTarget, needs: Needs = Needs.QUEUES
) -> Iterator[Session]:
    """A session with the service or the store.  Raises BadConfiguration."""
    channels = needs is not Needs.QUEUES
    _keep_quiet(channels)
    headers = {"Client-ID": parsed.client_id, "X-Project-ID": parsed.project}
    if channels and parsed.api_key:
        headers["X-API-Key"] = parsed.api_key
    with Runner() as runner, contextlib.ExitStack() as stack:
        if at.url:
            client = httpx.AsyncClient(base_url=at.url, headers=headers, timeout=_TIMEOUT)
        else:
            app = stack.enter_context(_in_process(parsed, at, runner, needs))
            client = httpx.AsyncClient(
                base_url="http://store",
                headers=headers,
                timeout=_TIMEOUT,
                transport=httpx.ASGITransport(app=app),  # type: ignore[arg-type]  # an ASGI app
            )
        try:
            yield Session(client, runner, at)
        finally:
            runner.run(client.aclose)


@contextlib.contextmanager
def stored(parsed: argparse.Namespace, at: CommandTarget) -> Iterator[tuple[Driver, Runner]]:
    """The store itself, started, and what runs its verbs.  Raises BadConfiguration."""
    _keep_quiet()
    conf = configuration.load([], parsed.config_file)
    with Runner() as runner, reachable(at) as uri:
        driver = configured.driver(conf, uri)()
        try:
            runner.run(driver.start)
            yield driver, runner
        finally:
            runner.run(driver.close)


@contextlib.contextmanager
def reachable(at: CommandTarget) -> Iterator[str]:
    """The URI of the store; a private one runs as long as this.  Raises BadConfiguration."""
    if urlsplit(at.uri).scheme != "embedded":
        yield at.uri
        return
    with embedded.running(at.uri, make=False) as uri:
        yield uri


@contextlib.contextmanager
def _in_process(
    parsed: argparse.Namespace, at: CommandTarget, runner: Runner, needs: Needs
) -> Iterator[App]:
    """The service's own code."""
    conf = configuration.load([], parsed.config_file)
    if needs is Needs.NAMESPACES and not (conf.config_file or conf.config_dir):
        # With the default options it would e.g. publish past the history that there is.
        raise errors.BadConfiguration(
            f"{at.by} needs the service's configuration: give --config-file, or ask the service "
            "by --url"
        )
    with reachable(at) as uri:
        settings = msgspec.structs.replace(configured.settings(conf), admin_mode=True)
        channels = needs is not Needs.QUEUES
        beside = configured.channels(conf, uri, of_command=True) if channels else None
        app = App(configured.driver(conf, uri)(), settings, beside)
        try:
            runner.run(app.process_startup, None, None)
            yield app
        finally:
            runner.run(app.process_shutdown, None, None)


def json_object(text: str) -> dict[str, Any]:
    """For an argument that is one."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("it must be a JSON object")
    return found


def name_of(text: str) -> str:
    """For an argument that names a queue, a pool or a flavor."""
    if not rules.is_queue_name(text):
        raise argparse.ArgumentTypeError(
            f"a name has 1 to {rules.QUEUE_NAME_MAX} ASCII letters, digits, underscores, "
            "dashes and dots"
        )
    if text in (".", ".."):
        raise argparse.ArgumentTypeError(f'no URL can have the name "{text}"')
    return text


def structured(parsed: argparse.Namespace) -> bool:
    """Whether the output has room for lists and objects; text does for the others."""
    return parsed.formatter in ("json", "yaml")


class Targeted(Command):
    """Base of the commands that talk to a store or, unless *store_only*, a service."""

    store_only = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        self.where(parser)
        return parser

    def where(self, parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
        """The group of options that say where."""
        where = parser.add_argument_group("where")
        one = where.add_mutually_exclusive_group()
        if not self.store_only:
            one.add_argument(
                "--url",
                type=target.service_url,
                help=f"a service, e.g. http://127.0.0.1:8888 ({target.URL})",
            )
        one.add_argument(
            "--storage",
            metavar="URI",
            help=f"{'the store' if self.store_only else 'or the store itself'} ({target.URI})",
        )
        one.add_argument("--profile", metavar="NAME", help="the one of this profile (that in use)")
        where.add_argument(
            "--config-file",
            action="append",
            metavar="FILE",
            help="configuration file, which may name the store",
        )
        return where

    def needs_target(self, parsed: argparse.Namespace) -> bool:
        """Whether there is anything to talk to, with these arguments."""
        return True

    def run(self, parsed_args: argparse.Namespace) -> int:
        if self.needs_target(parsed_args):
            self.target = target.find(parsed_args, store_only=self.store_only)
            self.tell_target(parsed_args)
        return super().run(parsed_args)

    def tell_target(self, parsed: argparse.Namespace) -> None:
        """Say where this goes, unless it was typed just now."""
        self.tell(f"at {self.target}", verbosity=2 if self.target.typed else 1)

    def tell(self, text: str, *, verbosity: int) -> None:
        """To people; -q asks for a verbosity of 0, -v for 2."""
        if self.app.options.verbose_level >= verbosity:
            print(f"zaqar-redis: {text}", file=sys.stderr, flush=True)


class Talking(Targeted):
    """Base of the commands that ask a service or a store."""

    store_only = False

    def where(self, parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
        where = super().where(parser)
        where.add_argument(
            "--project", default="default", help="whose queues and channels (default)"
        )
        where.add_argument(
            "--client-id", default=str(uuid.uuid4()), metavar="UUID", help="who asks (anybody)"
        )
        return where

    def opened(self, parsed: argparse.Namespace) -> contextlib.AbstractContextManager[Session]:
        return opened(parsed, self.target)


class Destructive(Talking):
    """Base of the commands that ask before they begin."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--yes", action="store_true", help="do not ask")
        return parser

    def tell_target(self, parsed: argparse.Namespace) -> None:
        if parsed.yes:  # else the question says it
            self.tell(f"at {self.target}", verbosity=1)

    def confirm(self, parsed: argparse.Namespace, what: str) -> None:
        """Raises Refused unless it is said, here or by ``--yes``."""
        if parsed.yes:
            return
        question = f"{what} at {self.target}?"
        if not sys.stdin.isatty():
            raise Refused(f"{question} Say so with --yes.")
        if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
            raise Refused("Nothing was done.")
