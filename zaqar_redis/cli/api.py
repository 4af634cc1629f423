# SPDX-License-Identifier: Apache-2.0
"""The REST client of commands: of a service, or of a store without one.

The calls are the same: without a service, its own code answers them in this process, over
the store, so that a command does the same either way.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from zaqar_redis import errors
from zaqar_redis.cli import target
from zaqar_redis.cli.target import CommandTarget, Needs, quiet_logging
from zaqar_redis.realtime.protocol import codes

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx

#: Timeout of one request; the longest creates a pool whose store is slow to answer.
_REQUEST_TIMEOUT_SECONDS = 60.0
#: Of commands that name none: of the service's default for channels, too.
_DEFAULT_PROJECT = "default"
_JSON_PATCH = "application/openstack-messaging-v2.0-json-patch"
#: Beginnings of the paths of what messages are in.
_SOURCES = ("/queues/", "/topics/")
#: Items in a page when a command reads all pages.
PAGE_SIZE = 20
#: Delay before a retry when the service names none.
_RETRY_DELAY_SECONDS = 1.0
#: Status codes of services that are unavailable, and of proxies in front of them.
_UNAVAILABLE_STATUSES = (502, 503, 504)
#: What OpenSSL says, by its version, of an answer that is not of TLS.
_NO_TLS = re.compile("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|PACKET_LENGTH_TOO_LONG")
#: What to do about errors of the server API, by their codes.
_HINTS = {
    codes.NOT_AVAILABLE.code: ": the namespace of the channel has it off (presence; history_size "
    "and history_ttl), or the channel is that of a queue"
}
#: Titles of answers to calls that the service does not have.
_UNROUTED = ("404 Not Found", "405 Method Not Allowed")


class CommandFailed(Exception):
    """The command failed, or the service refused it; the text says why."""


class Missing(CommandFailed):
    """There is no such resource."""


class ServiceUnavailable(CommandFailed):
    """The service is unavailable; a retry after *seconds* may succeed.

    *document* is what it answered, if anything.
    """

    def __init__(
        self, why: str, seconds: float = _RETRY_DELAY_SECONDS, document: Any = None
    ) -> None:
        super().__init__(why)
        self.seconds = seconds
        self.document = document


class ApiClient:
    """HTTP client of one command."""

    def __init__(
        self,
        client: httpx.Client,
        command_target: CommandTarget,
        sleep: Callable[[float], object],
    ) -> None:
        """*sleep*: sleeps for seconds, while background tasks in this process go on."""
        self._client = client
        self._target = command_target
        self.sleep = sleep

    def request(
        self, method: str, path: str, document: object | None = None, **query: object
    ) -> Any:
        """Returns the response's document, or None when it is empty.

        *path* is below ``/v2``; a *query* parameter that is None is left out.  Raises
        CommandFailed, ServiceUnavailable.
        """
        return self._send(method, f"/v2{path}", document, query)

    def patch(self, path: str, changes: list[dict[str, Any]]) -> Any:
        """Sends a JSON patch; returns the changed document.

        Raises CommandFailed, ServiceUnavailable.
        """
        return self._send("PATCH", f"/v2{path}", changes, {}, _JSON_PATCH)

    def body(self, path: str) -> bytes:
        """Returns the body of the message at a path below ``/v2``, as it was posted.

        Raises CommandFailed, ServiceUnavailable.
        """
        accept = {"Accept": "application/octet-stream"}
        return bytes(self._answer("GET", f"/v2{path}", None, {}, accept).content)

    def queue_stats(self, queue: str) -> Any:
        """Returns the detailed statistics of a queue.

        Raises Missing, CommandFailed, ServiceUnavailable.
        """
        document = self.request("GET", f"/queues/{queue}/stats", detailed=True)
        if "counters" not in document:
            raise CommandFailed("the service does not count: it is older than this command")
        return document

    def channels(self, **query: object) -> list[dict[str, Any]]:
        """Returns the figures of channels with subscribers, by name.

        *query*: the *channel* that is wanted, or a *pattern*.  Raises CommandFailed,
        ServiceUnavailable.
        """
        return list(self._send("GET", "/console/channels", None, query)["channels"])

    def call(self, method: str, **body: object) -> Any:
        """Returns the result of a method of the server API.

        A field that is None is left out.  Raises CommandFailed, ServiceUnavailable.
        """
        given = {name: value for name, value in body.items() if value is not None}
        answer = self._send("POST", f"/api/{method}", given, {})
        if "error" in answer:
            raise self._refusal(answer["error"])
        return answer.get("result", answer)  # a batch has "replies" in place of "result"

    def batch(self, *commands: dict[str, object], ignored_code: int) -> list[dict[str, Any]]:
        """Returns a reply for each command, with its result by method, or an ignored error.

        Errors with *ignored_code* (e.g. of features that are off) are ignored.  Raises
        CommandFailed for others, and ServiceUnavailable.
        """
        replies = self.call("batch", commands=list(commands))["replies"]
        for error in (reply["error"] for reply in replies if "error" in reply):
            if error["code"] != ignored_code:
                raise self._refusal(error)
        return list(replies)

    def _refusal(self, error: dict[str, Any]) -> CommandFailed:
        if error["code"] == codes.INTERNAL.code:
            if error["message"] != codes.INTERNAL.message:
                return ServiceUnavailable(f"{error['message']} ({error['code']})")
            why = f"the store {self._target.store}"
            if self._target.url:
                why = "the service, or its store,"
            return ServiceUnavailable(f"{why} failed with an internal error ({error['code']})")
        hint = _HINTS.get(error["code"], "")
        return CommandFailed(f"{error['message']} ({error['code']}){hint}")

    def _send(
        self,
        method: str,
        path: str,
        document: object | None,
        query: dict[str, object],
        media_type: str | None = None,
    ) -> Any:
        headers = {"Content-Type": media_type} if media_type else {}
        answer = self._answer(method, path, document, query, headers)
        return answer.json() if answer.content else None

    def _answer(
        self,
        method: str,
        path: str,
        document: object | None,
        query: dict[str, object],
        headers: dict[str, str],
    ) -> httpx.Response:
        given = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in query.items()
            if value is not None
        }
        httpx = _import_httpx()
        try:
            answer = self._client.request(
                method,
                path,
                params=given,  # type: ignore[arg-type]  # texts and numbers
                content=None if document is None else json.dumps(document),
                headers=headers,
            )
        except httpx.HTTPError as error:
            how = f": {errors.reason(error)}"
            if isinstance(error, httpx.TimeoutException):
                how = f" within {_REQUEST_TIMEOUT_SECONDS:g} s"
            why = f"{self._target} does not answer{how}"
            advice = f"; {target.advice()}" if self._target.is_default else ""
            if _NO_TLS.search(how):
                advice = "; it may not speak TLS: use http://"
            raise ServiceUnavailable(f"{why}{advice}") from error
        if answer.status_code in _UNAVAILABLE_STATUSES:
            is_json = answer.headers.get("Content-Type", "").startswith("application/json")
            document = answer.json() if is_json else None
            raise ServiceUnavailable(_error_text(answer), _retry_after(answer), document)
        if answer.status_code >= 400:
            kind = Missing if answer.status_code == 404 else CommandFailed
            raise kind(_error_text(answer))
        if "Ignored" in answer.headers:
            print_warning(f"this has no effect: {answer.headers['Ignored']}")
        return answer

    def list_items(self, path: str, items: str, **query: object) -> Iterator[dict[str, Any]]:
        """Yields every item of a listing, page by page."""
        for page in self._pages(path, items, False, **query):
            yield from page[items]

    def _pages(
        self, path: str, items: str, may_be_short: bool, **query: object
    ) -> Iterator[dict[str, Any]]:
        """*may_be_short*: also pages that are not the last one."""
        marker: str | None = None
        while True:
            page = self.request("GET", path, marker=marker, limit=PAGE_SIZE, **query)
            is_short = len(page[items]) < PAGE_SIZE and not may_be_short
            is_last = is_short or not page["links"]
            if marker is None and is_last and not page[items]:
                self._check_source(path)
            yield page
            if is_last:
                return
            marker = parse_qs(urlsplit(page["links"][0]["href"]).query)["marker"][-1]

    def list_queues(self, unavailable: set[str], **query: object) -> Iterator[dict[str, Any]]:
        """Yields the queues of the project, by name, as far as its stores can be read.

        Adds stores that cannot to *unavailable*; a queue in one of these names it, too.
        """
        for page in self._pages("/queues", "queues", False, partial=True, **query):
            if "unavailable" not in page:
                raise CommandFailed(
                    "the service does not list what is known while a store is away: it is older "
                    "than this command"
                )
            unavailable.update(page["unavailable"])
            yield from page["queues"]

    def list_linked(
        self, path: str, items: str, on_page: Callable[[], object] = bool, **query: object
    ) -> Iterator[dict[str, Any]]:
        """Yields every item of a listing whose pages may be short: it ends without a link.

        *on_page* is called for each page, which may have no items.
        """
        for page in self._pages(path, items, True, **query):
            on_page()
            yield from page[items]

    def found(self, path: str, **query: object) -> dict[str, Any]:
        """Returns what is at a path below ``/v2``; empty: nothing that may be shown."""
        try:
            return dict(self.request("GET", path, **query))
        except ServiceUnavailable:
            raise
        except CommandFailed:
            return {}

    def require(self, source: str) -> None:
        """Raises Missing if a queue or topic, a path below ``/v2``, does not exist."""
        self.require_shown(f"{source}/stats")

    def require_shown(self, path: str) -> None:
        """The same of whatever GET shows at a path."""
        # Without it, stats of a queue that does not exist are zeros, as in Zaqar.
        query = {"detailed": True} if path.endswith("/stats") else {}
        try:
            self.request("GET", path, **query)
        except Missing:
            raise
        except CommandFailed:
            pass  # e.g. without the right to look

    def _check_source(self, path: str) -> None:
        """Raises Missing if nothing is listed of a queue or topic that does not exist."""
        source = "/".join(path.split("/")[:3])
        if source != path and source.startswith(_SOURCES):
            self.require(source)


def _error_text(answer: httpx.Response) -> str:
    of_channels = answer.request.url.path.startswith(("/api/", "/console/"))
    if answer.status_code == 401 and of_channels:
        return (
            "the service refuses the API key (--api-key, or the variable ZAQAR_REDIS_API_KEY), "
            "or has none ([channels] api_key)"
        )
    if answer.status_code == 401:
        return (
            "the service refuses the access key or token (--token, or the variable "
            "ZAQAR_REDIS_TOKEN), or needs one"
        )
    try:
        document = answer.json()
        title, text = str(document["title"]), str(document["description"])
    except (ValueError, KeyError, TypeError):
        title, text = "", f"the service answered with status {answer.status_code}"
    if of_channels and (title in _UNROUTED or answer.status_code == 404):
        return "the service has no channels"
    if title in _UNROUTED:
        return f"{text} Or name its store, with --storage."
    is_source = answer.request.url.path.removeprefix("/v2").startswith(_SOURCES)
    if answer.status_code == 404 and is_source:
        project = answer.request.headers.get("X-Project-ID")
        this = f"the project {project}" if project else "the project of the credential, or default"
        return f"{text} This is {this}; --project names another."
    return text


def _retry_after(answer: httpx.Response) -> float:
    """Returns seconds until a retry; a Retry-After that is a date is ignored."""
    text = answer.headers.get("Retry-After", "")
    return max(_RETRY_DELAY_SECONDS, float(text)) if text.isdecimal() else _RETRY_DELAY_SECONDS


def print_warning(text: str) -> None:
    """Prints a line to standard error."""
    print(f"zaqar-redis: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def open_api(
    parsed: argparse.Namespace, command_target: CommandTarget, needs: Needs = Needs.QUEUES
) -> Iterator[ApiClient]:
    """Yields a client of the service or the store.  Raises BadConfiguration."""
    channels = needs is not Needs.QUEUES
    quiet_logging(channels)
    headers = {"Client-ID": parsed.client_id}
    if parsed.token and command_target.url:
        headers["Authorization"] = f"Bearer {parsed.token}"
    else:
        headers["X-Project-ID"] = _DEFAULT_PROJECT
    if parsed.project is not None:
        headers["X-Project-ID"] = parsed.project
    if channels and parsed.api_key:
        headers["X-API-Key"] = parsed.api_key
    # httpx takes texts of ASCII only; `base.header_value` has checked these.
    sent = {name: value.encode("latin-1") for name, value in headers.items()}
    make = partial(_import_httpx().Client, headers=sent, timeout=_REQUEST_TIMEOUT_SECONDS)
    if url := command_target.url:
        with make(base_url=url, verify=_trusted(url, parsed.ca_file)) as client:
            yield ApiClient(client, command_target, time.sleep)
        return
    from zaqar_redis.cli import stores

    with stores.in_process(parsed, command_target, needs) as (transport, sleep):
        client = make(base_url="http://store", transport=transport)
        yield ApiClient(client, command_target, sleep)


def _trusted(url: str, ca_file: str) -> SSLContext | bool:
    """Returns what httpx checks the service's certificate by.  Raises BadConfiguration."""
    if not url.startswith("https:"):
        return False  # the certificates of the system take long to read
    if not ca_file:
        return True
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # also ssl.SSLError
        why = error.strerror or errors.reason(error)
        raise errors.BadConfiguration(f"--ca-file {ca_file}: {why}") from error


def _import_httpx() -> ModuleType:
    """Imports httpx without its own command line, which takes as long to import as all else."""
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None: an ImportError
    import httpx

    return httpx


def counter_rates(
    before: Mapping[str, Any], now: Mapping[str, Any], seconds: float
) -> dict[str, float]:
    """Returns what a queue counted a second between two of its statistics."""
    earlier = before["counters"]
    return {
        # Of a queue that was deleted and created meanwhile it would be negative.
        name: max(0, number - earlier[name]) / seconds
        for name, number in now["counters"].items()
    }
