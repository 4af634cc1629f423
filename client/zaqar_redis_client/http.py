# SPDX-License-Identifier: Apache-2.0
"""Requests to one service: kept connections, retries, errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import re
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from typing import Any

import aiohttp
from yarl import URL

from zaqar_redis_client.credentials import Credential
from zaqar_redis_client.errors import LeaseLost, NotFound, Refused, Unavailable, Unsupported

#: Seconds between two attempts: at first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
#: Seconds that a request may take beside the time that it asks the service to wait.
_TIMEOUT = 30.0
#: What says that the request was not done: it may be sent again, whatever it is.
_NOT_DONE = frozenset({429})
#: What says that the service may answer later.
_LATER = frozenset({429, 500, 502, 503, 504, 507})
#: What only zaqar_redis is asked for: of stock Zaqar's stores only one has topics.
_EXTENDED = re.compile(r"/v2/(topics|schedules)\b")
logger = logging.getLogger(__name__)


class Together:
    """What tasks ask for in one turn of the loop, so that it leaves in few requests.

    *split* returns the items of each request, *send* what became of each of these.
    """

    def __init__(
        self,
        split: Callable[[list[Any]], Iterable[Sequence[Any]]],
        send: Callable[[Any], Coroutine[Any, Any, Sequence[Any]]],
    ) -> None:
        self._split, self._send = split, send
        self._asked: list[tuple[Any, asyncio.Future[Any]]] = []

    def add(self, item: Any) -> asyncio.Future[Any]:
        """Returns what becomes of it."""
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._leave)
        future: asyncio.Future[Any] = loop.create_future()
        self._asked.append((item, future))
        return future

    def _leave(self) -> None:
        asked, self._asked = self._asked, []
        futures = iter([future for _, future in asked])
        for items in self._split([item for item, _ in asked]):
            task = asyncio.create_task(self._send(items))
            task.add_done_callback(partial(_answer, [*islice(futures, len(items))]))


def _answer(futures: Sequence[asyncio.Future[Any]], task: asyncio.Task[Sequence[Any]]) -> None:
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    for future, outcome in zip(futures, repeat(error) if error else task.result(), strict=False):
        if future.done():
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def document(self) -> Any:
        """Raises Unavailable: it is of a proxy, perhaps."""
        try:
            return json.loads(self.content) if self.content else None
        except ValueError:
            text = f"the answer is no JSON: {self.content[:100]!r}"
            raise Unavailable(text, may_be_done=True) from None


class Connection:
    """Sends requests; of several attempts the last one counts."""

    def __init__(
        self,
        url: str,
        project: str | None,
        credential: Credential | None,
        connections: int,
        retry_for: float,
    ) -> None:
        if not url.lower().startswith(("http://", "https://")):
            raise ValueError(f"url must begin with http:// or https://, not {url!r}")
        self._url = url.rstrip("/").removesuffix("/v2")
        self.client_id = str(uuid.uuid4())
        self._headers = {"Client-ID": self.client_id, "Accept": "application/json"}
        if project is not None:
            self._headers["X-Project-ID"] = project
        self._credential = credential
        self._places = asyncio.Semaphore(connections)
        self.retry_for = retry_for
        #: None: it is closed; the next request opens another one
        self.session: aiohttp.ClientSession | None = None
        self._is_extended: bool | None = None

    async def close(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            await session.close()

    async def is_extended(self) -> bool:
        """Returns whether the service is zaqar_redis: stock Zaqar has no description of itself."""
        if self._is_extended is None:
            answer = await self.send("GET", "/openapi.json", expects=(404,))
            self._is_extended = answer.status == 200
        return self._is_extended

    async def require_extended(self, what: str) -> None:
        """Raises Unsupported."""
        if not await self.is_extended():
            raise Unsupported(f"stock Zaqar has no {what}")

    async def send(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
        wait: float = 0,
        expects: tuple[int, ...] = (),
        of_lease: bool = False,
    ) -> Answer:
        """Returns the answer to a request; *document* may be bytes of JSON.

        *repeatable*: done twice, it does what it does once, also if others have changed something
        in between; else it is sent again only when it cannot have been done.  *wait*: seconds that
        the service may take.  *expects*: statuses that are no errors.  *of_lease*: a refusal says
        that a lease has ended.  Raises Refused, Unavailable and Unsupported.
        """
        if extended := _EXTENDED.match(path):
            await self.require_extended(extended[1])
        data = json.dumps(document).encode() if not isinstance(document, bytes | None) else document
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + self.retry_for, _FIRST_PAUSE
        has_renewed = False
        while True:
            may_be_done, after = True, 0.0
            try:
                answer = await self._once(method, path, data, headers, wait)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                may_be_done, problem = False, str(error)
            except Unavailable as error:  # of the credential
                may_be_done, problem = error.may_be_done, str(error)
            except (aiohttp.ClientError, TimeoutError) as error:
                problem = str(error) or type(error).__name__
            else:
                # 204: it exists, with other metadata.
                if answer.status != 204 and (ignored := answer.headers.get("Ignored")):
                    logger.warning("%s %s: without effect: %s", method, path, ignored)
                if answer.status < 400 or answer.status in expects:
                    return answer
                if answer.status == 401 and self._credential and not has_renewed:
                    has_renewed = True
                    if await self._credential.renew():
                        continue
                refusal = _refusal(answer, method, path, of_lease)
                if answer.status not in _LATER:
                    raise refusal
                may_be_done = answer.status not in _NOT_DONE
                problem = str(refusal)
                wanted = answer.headers.get("Retry-After", "")
                after = float(wanted) if wanted.isdigit() else 0.0
            delay = max(after, pause * random.uniform(0.5, 1))
            pause = min(2 * pause, _LONGEST_PAUSE)
            if self.session and (repeatable or not may_be_done):  # else it was closed
                if loop.time() + delay > until:
                    problem = f"tried for {self.retry_for:g} seconds: {problem}"
                else:
                    await asyncio.sleep(delay)
                    if self.session:
                        continue
            raise Unavailable(problem, may_be_done=may_be_done)

    async def document(
        self, method: str, path: str, document: Any = None, **options: Any
    ) -> dict[str, Any]:
        """Returns the document of an answer: see `send`."""
        return dict((await self.send(method, path, document, **options)).document)

    async def _once(
        self,
        method: str,
        path: str,
        data: bytes | None,
        headers: Mapping[str, str] | None,
        wait: float,
    ) -> Answer:
        if self.session is None:
            self.session = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=0),  # `_places` limits them
                cookie_jar=aiohttp.DummyCookieJar(),
                middlewares=(_once_only,),
            )
        sent = dict(headers or {})
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        if self._credential is not None:
            sent |= await self._credential.headers()
        # What waits in the service leaves its place to others: else they would wait for it.
        async with contextlib.nullcontext() if wait else self._places:
            if self.session is None:
                raise Unavailable("the client was closed", may_be_done=False)
            async with self.session.request(
                method,
                URL(self._url + path, encoded=True),
                data=data,
                headers=sent,
                timeout=aiohttp.ClientTimeout(total=_TIMEOUT + wait, sock_connect=10),
                allow_redirects=False,
            ) as response:
                return Answer(response.status, response.headers, await response.read())


async def _once_only(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keeps aiohttp from sending any PUT and DELETE again: this module knows which are safe."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(str(error) or type(error).__name__) from error


def _refusal(answer: Answer, method: str, path: str, of_lease: bool) -> Refused:
    title, description = "", answer.content[:500].decode(errors="replace")
    with contextlib.suppress(ValueError, KeyError, TypeError):  # of a proxy, perhaps
        found = json.loads(answer.content)
        title, description = str(found["title"]), str(found["description"])
    kind: type[Refused] = NotFound if answer.status == 404 else Refused
    # 400 is that of a deletion, or else of a bad value.
    if of_lease and answer.status in ((400, 403, 404) if method == "DELETE" else (403, 404)):
        kind = LeaseLost
    return kind(answer.status, title, description, f"{method} {path.partition('?')[0]}")
