# SPDX-License-Identifier: Apache-2.0
"""/v2/queues and its sub-resources, except messages and claims."""

from __future__ import annotations

from typing import Any

from falcon.asgi import Request, Response

from zaqar_redis import errors
from zaqar_redis.api import body, documents
from zaqar_redis.auth.signed_urls import UrlSigner
from zaqar_redis.service import patches
from zaqar_redis.service.queues import QueueService

_PATCH = "application/openstack-messaging-v2.0-json-patch"
_PARAMETERS = frozenset(("marker", "limit", "detailed", "name", "with_count"))


class QueueCollection:
    def __init__(self, queues: QueueService) -> None:
        self._queues = queues

    async def on_get(self, req: Request, resp: Response) -> None:
        project = req.context.project
        given: dict[str, Any] = {
            "marker": req.get_param("marker"),
            "limit": req.get_param_as_int("limit"),
            "detailed": req.get_param_as_bool("detailed"),
            "name": req.get_param("name"),
            "with_count": req.get_param_as_bool("with_count"),
        }
        filters = _filters(req)
        page = await self._queues.list(
            project, given["marker"] or "", given["limit"], given["name"] or "", filters
        )
        count = await self._queues.count(project) if given["with_count"] else None
        shown = [self._queues.shown(queue.metadata) for queue in page.items]
        links = documents.next_link(req.path, given | filters, page.marker)
        resp.data = documents.queue_page(
            page.items, shown if given["detailed"] else None, links, count
        )


def _filters(req: Request) -> dict[str, str]:
    """API: any other parameter must equal the metadata of that name."""
    filters = {}
    for name, value in req.params.items():
        if name not in _PARAMETERS:
            if not isinstance(value, str):
                raise errors.BadParameter(name=name, why="a filter may be given once.")
            filters[name] = value
    return filters


class QueueItem:
    def __init__(self, queues: QueueService, max_metadata: int) -> None:
        self._queues = queues
        self._max_metadata = max_metadata

    async def on_put(self, req: Request, resp: Response, queue: str) -> None:
        metadata = documents.metadata(await self._body(req))
        created = await self._queues.create(req.context.project, queue, metadata)
        resp.status = 201 if created else 204
        resp.set_header("Location", f"/v2/queues/{queue}")

    async def on_get(self, req: Request, resp: Response, queue: str) -> None:
        resp.data = documents.encode(await self._queues.get(req.context.project, queue))

    async def on_patch(self, req: Request, resp: Response, queue: str) -> None:
        if req.content_type != _PATCH:
            raise errors.UnsupportedMediaType(why=f"A queue is patched with {_PATCH}.")
        changes = patches.read(documents.json_document(await self._body(req)))
        resp.data = documents.encode(await self._queues.patch(req.context.project, queue, changes))

    async def on_delete(self, req: Request, resp: Response, queue: str) -> None:
        await self._queues.delete(req.context.project, queue)
        resp.status = 204

    async def _body(self, req: Request) -> bytes:
        return await body.read(req, self._max_metadata, "Queue metadata")


class QueueStats:
    def __init__(self, queues: QueueService) -> None:
        self._queues = queues

    async def on_get(self, req: Request, resp: Response, queue: str) -> None:
        resp.data = documents.stats(queue, await self._queues.stats(req.context.project, queue))


class QueuePurge:
    def __init__(self, queues: QueueService) -> None:
        self._queues = queues

    async def on_post(self, req: Request, resp: Response, queue: str) -> None:
        types = documents.purge(await body.read(req, body.SMALL, "A purge"))
        if "messages" in types:
            await self._queues.purge(req.context.project, queue)
        resp.status = 204


class QueueShare:
    def __init__(self, signer: UrlSigner) -> None:
        self._signer = signer

    async def on_post(self, req: Request, resp: Response, queue: str) -> None:
        requested = documents.share(await body.read(req, body.SMALL, "A share"))
        signed = self._signer.share(
            req.context.project, queue, requested.paths, requested.methods, requested.expires
        )
        resp.data = documents.encode(signed)
