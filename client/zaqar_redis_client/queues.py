# SPDX-License-Identifier: Apache-2.0
"""Queues and topics, and their messages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from math import inf
from time import monotonic
from typing import Any, Unpack
from urllib.parse import quote, urlencode

from zaqar_redis_client.claims import PAGE, AsyncClaim, AsyncLease, give_back, pages
from zaqar_redis_client.errors import LeaseLost, Refused, Unavailable, ZaqarError
from zaqar_redis_client.http import Connection, Together
from zaqar_redis_client.records import BINARY, Draft, DraftFields, Message

#: Messages and bytes of one request at most: below the limits of a service that has the defaults.
_BATCH, _BATCH_BYTES = 1000, 200_000
#: Seconds of a long poll, and of the pause where there is none or it has failed.
_WAIT, _PAUSE = 20.0, 1.0
#: Seconds for the answer to a claim that nobody waits for any more: such as a stall takes.
_LATE = 5.0
#: Seconds that a message lives longer than its claim: the least that Zaqar allows.
_GRACE = 60
_PATCH = "application/openstack-messaging-v2.0-json-patch"
#: Metadata with a meaning that stock Zaqar has, too: it keeps others, and does nothing with them.
_STOCK = {"_max_messages_post_size", "_default_message_ttl", "_default_message_delay", "_flavor"}
_STOCK |= {"_dead_letter_queue", "_dead_letter_queue_messages_ttl", "_max_claim_count"}
_STOCK |= {"_enable_encrypt_messages", "_retry_policy"}


class AsyncTopic:
    """A topic of the client's project: its messages stay for all who read them.

    It need not exist yet.  All methods raise Refused and Unavailable, with stock Zaqar Unsupported.
    """

    kind = "topics"

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.name = name
        self._path = f"/v2/{self.kind}/{quote(name, safe='')}"
        self._posts = Together(_requests, self._post_each)

    # The queue itself.

    async def create(self, /, **metadata: Any) -> bool:
        """Returns False if it existed: then its metadata stay as they are.  Raises Unsupported."""
        await self._require(metadata)
        return (await self._connection.send("PUT", self._path, metadata)).status == 201

    async def delete(self) -> None:
        await self._connection.send("DELETE", self._path, repeatable=False)

    async def metadata(self) -> dict[str, Any]:
        return await self._connection.document("GET", self._path)

    async def update(self, /, **metadata: Any) -> dict[str, Any]:
        """Sets these metadata, removes those that are None; returns all.  Raises Unsupported."""
        await self._require(metadata)
        try:
            return await self._update(metadata)
        except Refused as error:
            if error.status != 409:
                raise
            return await self._update(metadata)  # another client has removed one meanwhile

    async def _require(self, metadata: Mapping[str, Any]) -> None:
        more = [name for name in metadata if name.startswith("_") and name not in _STOCK]
        if more:
            await self._connection.require_extended(", ".join(more))

    async def _update(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        now = await self.metadata()
        patch = [
            {
                "op": "remove" if value is None else "add",
                "path": "/metadata/" + name.replace("~", "~0").replace("/", "~1"),  # RFC 6901
                "value": value,
            }
            for name, value in metadata.items()
            if value is not None or name in now
        ]
        headers = {"Content-Type": _PATCH}
        return await self._connection.document(
            "PATCH", self._path, patch, headers=headers, repeatable=False
        )

    async def stats(self) -> dict[str, Any]:
        """Returns the statistics of its messages; those of zaqar_redis have more of them."""
        return await self._connection.document("GET", f"{self._path}/stats?detailed=true")

    async def purge(self) -> None:
        """Deletes all its messages."""
        what = {"resource_types": ["messages"]}
        await self._connection.send("POST", f"{self._path}/purge", what, repeatable=False)

    async def share(self, *, methods: Sequence[str], expires: str) -> dict[str, Any]:
        """Returns a pre-signed URL of its messages, for `SignedURL`.  *expires*: ISO 8601."""
        wanted = {"paths": ["messages"], "methods": [*methods], "expires": expires}
        return await self._connection.document("POST", f"{self._path}/share", wanted)

    # Messages.

    async def post(self, body: Any, /, **fields: Unpack[DraftFields]) -> str:
        """Posts a message, and returns its id; *fields*: those of `Draft`.

        What tasks post in one turn of the loop leaves in one request.
        """
        document = await self._document(Draft(body=body, **fields) if fields else body)
        return str(await self._posts.add(document))

    async def post_many(self, drafts: Iterable[Draft | Any]) -> list[str]:
        """Posts messages, in this order, and returns their ids.

        Those of one request are posted all or none; there are several when they are more than 1000
        messages or 200 000 bytes.
        """
        if isinstance(drafts, (str, Mapping, *BINARY)):
            raise TypeError("post_many takes a list of bodies, not one body")
        found: list[str] = []
        for documents in _requests([await self._document(each) for each in drafts]):
            found += await self._post(documents)
        return found

    async def get(self, message_id: str) -> Message:
        """Raises NotFound."""
        path = f"{self._path}/messages/{quote(message_id)}?with_attributes=true&detailed=true"
        return Message.of((await self._connection.send("GET", path)).document)

    async def messages(
        self, *, claimed: bool = False, delayed: bool = False, reverse: bool = False
    ) -> AsyncIterator[Message]:
        """Lists messages, the oldest first, as it reads them."""
        asked = {"echo": "true", "with_attributes": "true", "detailed": "true", "limit": PAGE}
        asked |= {"include_claimed": str(claimed).lower(), "include_delayed": str(delayed).lower()}
        path = f"{self._path}/messages?{urlencode(asked)}" + ("&reverse=true" if reverse else "")
        last = ""
        while path:
            answer = await self._connection.send("GET", path)
            page = answer.document or {"messages": [], "links": []}
            found = [Message.of(each) for each in page["messages"]]
            if not found or found[-1].id == last:  # stock Zaqar repeats a single one
                return
            for message in found:
                yield message
            last = found[-1].id
            path = next((link["href"] for link in page["links"] if link["rel"] == "next"), "")
            if path and "with_attributes" not in path:  # stock Zaqar forgets what it does not know
                path += "&with_attributes=true"

    async def delete_messages(self, ids: Sequence[str]) -> None:
        for page in pages(ids):
            wanted = ",".join(page)
            await self._connection.send("DELETE", f"{self._path}/messages?ids={wanted}")

    # Subscriptions.

    async def subscribe(self, subscriber: str, /, **fields: Any) -> dict[str, Any]:
        """Returns id and perhaps the secret; *fields*: `ttl` and `options`, of Zaqar."""
        path, wanted = f"{self._path}/subscriptions", {"subscriber": subscriber, **fields}
        # Only its first answer has the secret.
        return await self._connection.document("POST", path, wanted, repeatable=False)

    async def unsubscribe(self, subscription_id: str) -> None:
        await self._connection.send("DELETE", f"{self._path}/subscriptions/{subscription_id}")

    # How they are sent.

    async def _document(self, draft: Draft | Any) -> bytes:
        """*draft*: or a body.  Raises Unsupported."""
        if isinstance(draft, BINARY):
            draft = Draft(body=draft)
        if not isinstance(draft, Draft):
            return json.dumps({"body": draft}).encode()
        document = draft.document()
        if not document.keys() <= {"body", "ttl", "delay"}:
            await self._connection.require_extended("more of a message than body, ttl and delay")
        return json.dumps(document).encode()

    async def _post_each(self, documents: list[bytes]) -> Sequence[str | BaseException]:
        """Returns what became of each."""
        try:
            return await self._post(documents)
        except Refused:
            if len(documents) == 1:
                raise
        # One of them is wrong, so none was posted.
        singly = (self._post([document]) for document in documents)
        outcomes = await asyncio.gather(*singly, return_exceptions=True)
        return [each if isinstance(each, BaseException) else each[0] for each in outcomes]

    async def _post(self, documents: list[bytes], key: str = "") -> list[str]:
        answer = await self._connection.send(
            "POST",
            f"{self._path}/messages",
            b'{"messages":[%b]}' % b",".join(documents),
            headers={"Idempotency-Key": key or str(uuid.uuid4())},
            repeatable=await self._connection.is_extended(),
        )
        ids = [href.rpartition("/")[2] for href in answer.document["resources"]]
        if len(ids) != len(documents):
            raise ZaqarError(f"{len(documents)} messages were posted, {len(ids)} answered")
        return ids


class AsyncQueue(AsyncTopic):
    """A queue of the client's project.  It need not exist yet.

    All methods raise Refused and Unavailable.
    """

    kind = "queues"

    async def pop(self, limit: int = 1) -> list[Message]:
        """Takes messages out of the queue for good: if the answer is lost, so are they."""
        path = f"{self._path}/messages?pop={limit}&with_attributes=true"
        answer = await self._connection.send("DELETE", path, repeatable=False)
        return [Message.of(each) for each in (answer.document or {"messages": []})["messages"]]

    # Claims.

    async def claim(
        self, limit: int = 1, *, ttl: int = 60, grace: int = _GRACE, wait: float = 0
    ) -> AsyncClaim | None:
        """Claims messages for *ttl* seconds; None: after *wait* seconds there is still none."""
        asked = {"limit": limit, "detailed": "true", "with_attributes": "true"}
        is_waiting = wait > 0 and await self._connection.is_extended()
        if is_waiting:
            asked["wait"] = round(wait)
        path, document = f"{self._path}/claims?{urlencode(asked)}", {"ttl": ttl, "grace": grace}
        until = monotonic() + wait
        while True:
            sent_at = monotonic()
            answer = await self._connection.send(
                "POST", path, document, repeatable=False, wait=wait
            )
            if answer.status != 204:
                break
            if is_waiting or sent_at >= until:
                return None
            await asyncio.sleep(min(_PAUSE, max(0, until - monotonic())))
        messages = [Message.of(each) for each in answer.document["messages"]]
        claim_id = answer.headers["Location"].rpartition("/")[2]
        claim = AsyncClaim(self, claim_id, ttl, grace, messages, sent_at)
        if monotonic() - sent_at > ttl / 3:  # when it began is not known
            with contextlib.suppress(LeaseLost):
                await claim.renew()
        return claim

    async def _leases(self, limit: int, *, ttl: int, wait: float = 0) -> list[AsyncLease]:
        """Claims messages, whose leases are renewed from now on; none: *wait* is over.

        Cancelled, it gives back what comes, unless it waits for that: else nobody had it.
        """
        claiming = asyncio.create_task(self._kept(limit, ttl, wait))
        try:
            return await (claiming if wait else asyncio.shield(claiming))
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):  # of a credential it may be any
                async with asyncio.timeout(_LATE):
                    await give_back(await claiming)
            raise

    async def _kept(self, limit: int, ttl: int, wait: float) -> list[AsyncLease]:
        claim = await self.claim(limit, ttl=ttl, grace=max(ttl, _GRACE), wait=wait)
        if claim is None:
            return []
        claim.keep()
        return [AsyncLease(claim, message) for message in claim.messages]

    async def consume(
        self, *, prefetch: int = PAGE, ttl: int = 60
    ) -> AsyncGenerator[AsyncLease, None]:
        """Yields messages as they come, each with its lease, for ever.

        Leases are renewed until you end them with `ack` or `release`.  One that cannot be renewed
        counts as lost, see `AsyncLease.lost`, before others get it.  When the iteration ends,
        those that were not yielded go back at once; end it with `contextlib.aclosing`.
        """
        wait, fails_since = 0.0, inf
        while True:
            try:
                left = await self._leases(prefetch, ttl=ttl, wait=wait)
            except Unavailable as error:
                fails_since = min(fails_since, monotonic())
                if not error.may_be_done or monotonic() - fails_since > self._connection.retry_for:
                    raise
                await asyncio.sleep(_PAUSE)  # what it may have claimed comes back by itself
                wait = 0.0
                continue
            # A full one: more may be there, and only a claim that waits can lose them in its end.
            wait, fails_since = 0.0 if len(left) == prefetch else _WAIT, inf
            try:
                while left and not left[0].is_lost:
                    yield left.pop(0)
            finally:
                await give_back(lease for lease in left if not lease.is_lost)


def _requests(documents: Sequence[bytes]) -> list[list[bytes]]:
    """Returns the documents of each request."""
    found: list[list[bytes]] = []
    size = 0
    for document in documents:
        if not found or len(found[-1]) == _BATCH or size + len(document) > _BATCH_BYTES:
            found.append([])
            size = 0
        found[-1].append(document)
        size += len(document) + 1
    return found
