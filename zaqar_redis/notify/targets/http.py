# SPDX-License-Identifier: Apache-2.0
"""The target of ``http:`` and ``https:``: webhooks, by POST.

Nothing that an endpoint does takes more than the time-out of the attempt and some bounded memory.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import logging
import math
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, cast

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from zaqar_redis import errors
from zaqar_redis.notify import addresses, answers, payloads
from zaqar_redis.notify.addresses import AddressGuard, SystemResolver
from zaqar_redis.notify.settings import HttpSettings
from zaqar_redis.notify.target import Delivery, Outcome, Result
from zaqar_redis.notify.target_context import TargetContext
from zaqar_redis.service.subscription_options import SubscriptionOptions, check_headers

LOG = logging.getLogger(__name__)

_SCHEMES = ("http", "https")
_SECRET_PREFIX = "whsec_"  # noqa: S105  what a secret begins with
#: Characters of a part of a name.
_LABEL_MAX = 63
#: Bytes of an answer that are read; then the connection is closed. Webhooks' answers are short, and
#: closing costs less than reading a long one.
ANSWER_MAX = 64 * 1024
#: Seconds that an idle connection is kept: less than common servers keep it (5 s), which would else
#: close it while a request is under way.
_KEPT = 4.0
#: Redirects that repeat the request. RFC 9110, 15.4: after 303 another one would follow, a GET.
_REDIRECTS = (301, 302, 307, 308)
#: The first status that is not of an answer before the answer.
_FINAL = 200
_HEADERS = {"User-Agent": "zaqar-redis", "Accept": "*/*", "Accept-Encoding": "identity"}


class _HeadFirst(ResponseHandler):
    """Parses the head of an answer before what comes with it: what is wrong there costs no status.

    Some servers send a body behind a 204, or more than Content-Length says, which is no answer.
    """

    _head_comes = True

    def set_response_params(self, **how: Any) -> None:
        self._head_comes = True
        super().set_response_params(**how)

    def data_received(self, data: bytes) -> None:
        # Line by line: a head may end anywhere, and others (1xx) may come before it.
        while self._head_comes and 0 < (end := data.find(b"\n") + 1) < len(data):
            self._receive(data[:end])
            data = data[end:]
        self._receive(data)

    def _receive(self, data: bytes) -> None:
        super().data_received(data)
        error = self.exception()
        self._head_comes &= error is None and not any(
            message.code >= _FINAL for (message, _), _ in self._buffer
        )
        if error is not None and self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(error)  # else whoever reads it would wait for its end


class _Connector(aiohttp.TCPConnector):
    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self._factory = cast("partial[ResponseHandler]", partial(_HeadFirst, loop=self._loop))


class HttpTarget:
    #: An endpoint is outside this installation, and may be away for good.
    internal = False

    def __init__(self, settings: HttpSettings, resolver: AbstractResolver | None = None) -> None:
        """*resolver*: of names; by default the system's.  Raises BadConfiguration."""
        self._settings = settings
        self._resolver = resolver
        self._guard = AddressGuard(settings.allowed_networks)
        # True: aiohttp's context, which it has made anyway.
        self._tls = True if settings.ca_file is None else _tls(settings.ca_file)
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    def check(self, subscriber: str, options: SubscriptionOptions) -> None:
        # Not whether its address may be reached: the guard asks that of each connection.
        host, port, scheme = "", None, ""
        with contextlib.suppress(ValueError):
            url = URL(subscriber)
            host, port, scheme = url.raw_host or "", url.explicit_port, url.scheme
        if scheme not in _SCHEMES or not host or port == 0:
            raise errors.BadRequest(
                why='"subscriber" must be a URI like https://host/path, with a host, and a port '
                "from 1 to 65535 or none."
            )
        labels = host.removesuffix(".").split(".")
        # RFC 1035, 2.3.4
        if not all(0 < len(each) <= _LABEL_MAX for each in labels):
            raise errors.BadRequest(
                why=f'"subscriber": {host} is no name of a host: between its dots are 1 to 63 '
                "characters."
            )

    def _open(self) -> aiohttp.ClientSession:
        settings = self._settings
        self._names = self._resolver or SystemResolver()
        connector = _Connector(
            resolver=self._names,
            use_dns_cache=False,  # a connection is kept, an address is not
            socket_factory=self._guard.open_socket,
            ssl=self._tls,
            limit=settings.max_connections,
            limit_per_host=settings.max_connections_per_host,
            keepalive_timeout=_KEPT,
        )
        return aiohttp.ClientSession(
            connector=connector,
            headers=_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )

    async def close(self) -> None:
        self._is_closed = True
        if self._session is not None:
            await self._session.close()
            await self._names.close()
            self._session = None

    async def deliver(self, delivery: Delivery) -> Result:
        return await self.send(delivery, delivery.subscription.subscriber, {})

    async def send(self, delivery: Delivery, uri: str, headers: Mapping[str, str]) -> Result:
        """Delivers to this URI, with headers that only its origin gets; raises nothing."""
        if self._is_closed:
            return Result(Outcome.RETRY, "this process does not deliver webhooks any more")
        if self._session is None:
            self._session = self._open()
        try:
            attempt = _attempt(delivery, uri, headers)
        except errors.BadRequest as problem:
            return Result(Outcome.REFUSED, problem.text)
        except ValueError:
            return Result(Outcome.REFUSED, "no request can be written for this subscriber")
        seconds = min(delivery.options.timeout, self._settings.max_timeout)
        result: Result | None = None
        text = bytearray()
        try:
            answer = await self._answer(self._session, attempt, seconds)
            try:
                result = answers.judged(attempt.url, answer.status, answer.headers)
                while len(text) < ANSWER_MAX and not answer.content.at_eof():
                    text += await answer.content.readany()
            finally:
                # Not `async with`, which waits for a body that is still being sent.
                answer.release()
        except Exception as error:
            # The status says how it went, also when the rest of an answer never comes.
            if result is None:
                result = answers.failure(error, attempt.url, seconds)
                LOG.debug(
                    "a webhook got no answer",
                    extra={"action": "webhook", "error": result.error},
                )
        if not text:
            return result
        return msgspec.structs.replace(result, answer=answers.shown(bytes(text)))

    async def _answer(
        self, session: aiohttp.ClientSession, attempt: _Attempt, seconds: float
    ) -> aiohttp.ClientResponse:
        """Returns the last answer, of which the head was read.

        Raises BadRedirect, TimeoutError after *seconds* in all.
        """
        until = time.monotonic() + seconds
        timeout = _timeout(seconds)
        most, followed = self._settings.max_redirects, 0
        while True:
            answer = await session.post(
                attempt.url,
                data=attempt.body,
                headers=attempt.headers,
                allow_redirects=False,
                timeout=timeout,
            )
            location = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or location is None:
                return answer
            answer.release()
            asked = attempt.url
            attempt.redirect(answer.status, location)
            if followed == most:
                why = f"to {attempt.url.origin()}, and no more than {most} are followed"
                raise answers.BadRedirect(asked, answer.status, why)
            followed += 1
            if until <= time.monotonic():
                raise TimeoutError
            timeout = _timeout(until - time.monotonic())


def create(context: TargetContext) -> HttpTarget:
    """The object of the entry points ``http`` and ``https``.  Raises BadConfiguration."""
    return HttpTarget(context.http)


class _Attempt:
    """One request, as it is redirected."""

    def __init__(self, uri: str, body: bytes, own: Mapping[str, str], given: Mapping[str, str]):
        """*own* are the headers for every origin, in small letters, *given* those for the origin of
        *uri* only.  Raises ValueError.
        """
        self.url, credentials = _requested(uri)
        self.body = body
        self._own = own
        self._given = credentials | {name.lower(): value for name, value in given.items()}

    @property
    def headers(self) -> Mapping[str, str]:
        return {**self._own, **self._given}

    def redirect(self, status: int, location: str) -> None:
        """Raises BadRedirect."""
        old = self.url
        try:
            new = old.join(URL(location))
            if new.scheme not in _SCHEMES:
                raise answers.BadRedirect(old, status, "to what is neither http nor https")
            new = new.with_user(None).with_fragment(None)
            to = new.origin()
        except ValueError:
            raise answers.BadRedirect(old, status, "to what is no URI of a host") from None
        if old.scheme == "https" and new.scheme == "http":
            raise answers.BadRedirect(old, status, f"from https to {to}, which is not followed")
        is_upgrade = (
            old.raw_host == new.raw_host
            and (old.scheme, new.scheme) == ("http", "https")
            and old.is_default_port()
            and new.is_default_port()
        )
        if not (new.origin() == old.origin() or is_upgrade):
            self._given = {}
        self.url = new


def _attempt(delivery: Delivery, uri: str, headers: Mapping[str, str]) -> _Attempt:
    """Raises BadRequest, ValueError."""
    payload = payloads.written(delivery)
    options = delivery.options
    signed = signed_headers(options.secrets, delivery.id, int(time.time()), payload.body)
    given = {**_given_headers(options), **headers}
    return _Attempt(uri, payload.body, payload.headers | signed, given)


def signed_headers(secrets: Sequence[str], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Returns the headers of a webhook, by which receivers know who sends it, and when.

    Standard Webhooks 1.0, one signature for each secret:
    https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

    *id*: the same in each attempt, so that receivers recognise a repetition.  *timestamp*: of the
    attempt, in seconds.  Without secrets there is no signature.
    """
    headers = {"webhook-id": id, "webhook-timestamp": str(timestamp)}
    if secrets:
        # Spec: "the id, timestamp, and payload", joined by full stops
        content = f"{id}.{timestamp}.".encode() + body
        headers["webhook-signature"] = " ".join(_signature(each, content) for each in secrets)
    return headers


def _signature(secret: str, content: bytes) -> str:
    digest = hmac.digest(_key(secret), content, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


@lru_cache(maxsize=1024)
def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(_SECRET_PREFIX))


# aiohttp asks a URL again and again for what yarl keeps in that object.
@lru_cache(maxsize=1024)
def _requested(uri: str) -> tuple[URL, dict[str, str]]:
    """Returns what is requested, and the header for what is before the host.  Raises ValueError."""
    url = URL(uri)
    if url.scheme not in _SCHEMES:
        raise ValueError(url.scheme)
    requested = url.with_user(None).with_fragment(None)
    address = addresses.ipv4_literal(url.raw_host or "")
    if address is not None:  # aiohttp refuses other spellings, like 0 or 127.1
        requested = requested.with_host(str(address))
    return requested, _credentials(url)


def _given_headers(options: SubscriptionOptions) -> Mapping[str, str]:
    """Returns the option ``post_headers``.  Raises BadRequest.

    It is checked again: nobody has checked the options of stock Zaqar's subscriptions, and several
    subscriptions share a connection.
    """
    given = options.raw.get("post_headers") or {}
    check_headers("post_headers", given)
    return cast(Mapping[str, str], given)


def _credentials(url: URL) -> dict[str, str]:
    """Returns the header for what a URI has before its host: RFC 7617."""
    if url.user is None and url.password is None:
        return {}
    pair = f"{url.user or ''}:{url.password or ''}".encode()
    return {"authorization": f"Basic {base64.b64encode(pair).decode()}"}


@lru_cache(maxsize=64)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    """Returns that of a request, from its beginning until its answer is read."""
    return aiohttp.ClientTimeout(total=seconds, ceil_threshold=math.inf)


def _tls(ca_file: str) -> ssl.SSLContext:
    """Raises BadConfiguration."""
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise errors.BadConfiguration(
            f"[notification] ca_file: {ca_file} cannot be read: {errors.reason(error)}"
        ) from error
    return context
