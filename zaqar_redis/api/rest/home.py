# SPDX-License-Identifier: Apache-2.0
"""Version discovery, the home document, ping and health."""

from __future__ import annotations

from typing import Any

import falcon
from falcon.asgi import Request, Response

from zaqar_redis import errors
from zaqar_redis.api import documents
from zaqar_redis.service.health import HealthService

_VERSIONS = documents.encode(
    {
        "versions": [
            {
                "id": "2",
                "status": "CURRENT",
                "updated": "2014-9-24T04:06:47Z",
                "media-types": [
                    {
                        "base": "application/json",
                        "type": "application/vnd.openstack.messaging-v2+json",
                    }
                ],
                "links": [{"href": "/v2/", "rel": "self"}],
            }
        ]
    }
)


class Versions:
    """``GET /``: open to all, without a client or a project."""

    public = True

    async def on_get(self, req: Request, resp: Response) -> None:
        resp.status = 300
        resp.data = _VERSIONS


def _resource(template: str, allow: list[str], hints: dict[str, Any] | None = None) -> Any:
    """One JSON-Home resource; ``{name}`` in a template is a path variable."""
    path, _, query = template.partition("{?")
    names = [part.split("}")[0] for part in path.split("{")[1:]]
    names += query.rstrip("}").split(",") if query else []
    document: dict[str, Any] = {
        "hints": {"allow": allow, "formats": {"application/json": {}}} | (hints or {})
    }
    if names:
        document["href-template"] = f"/v2{template}"
        document["href-vars"] = {name: f"param/{name}" for name in names}
    else:
        document["href"] = f"/v2{template}"
    return document


def _home(admin: bool, pooling: bool) -> bytes:
    queue = "/queues/{queue_name}"
    accept = {"accept-post": ["application/json"]}
    patch = {"accept-patch": ["application/openstack-messaging-v2.0-json-patch"]}
    resources = {
        "rel/queues": _resource("/queues{?marker,limit,detailed,name,with_count}", ["GET"]),
        "rel/queue": _resource(queue, ["GET", "PUT", "PATCH", "DELETE"], patch),
        "rel/queue_stats": _resource(f"{queue}/stats", ["GET"]),
        "rel/queue_share": _resource(f"{queue}/share", ["POST"], accept),
        "rel/queue_purge": _resource(f"{queue}/purge", ["POST"], accept),
        "rel/messages": _resource(
            f"{queue}/messages{{?limit,marker,echo,include_claimed,include_delayed,wait}}",
            ["GET"],
        ),
        "rel/post_messages": _resource(f"{queue}/messages", ["POST"], accept),
        "rel/messages_delete": _resource(f"{queue}/messages{{?ids,pop,claim_ids}}", ["DELETE"]),
        "rel/message_get": _resource(f"{queue}/messages/{{message_id}}", ["GET"]),
        "rel/message_delete": _resource(
            f"{queue}/messages/{{message_id}}{{?claim_id}}", ["DELETE"]
        ),
        "rel/claim": _resource(f"{queue}/claims/{{claim_id}}", ["GET"]),
        "rel/post_claim": _resource(f"{queue}/claims{{?limit,wait}}", ["POST"], accept),
        "rel/patch_claim": _resource(f"{queue}/claims/{{claim_id}}", ["PATCH"], accept),
        "rel/delete_claim": _resource(f"{queue}/claims/{{claim_id}}", ["DELETE"]),
        "rel/ping": _resource("/ping", ["GET", "HEAD"]),
    }
    if admin:
        resources["rel/health"] = _resource("/health", ["GET"])
    if admin and pooling:
        for kind in ("pool", "flavor"):
            listed = _resource(f"/{kind}s{{?marker,limit,detailed}}", ["GET"])
            item = f"/{kind}s/{{{kind}_name}}"
            resources[f"rel/{kind}s"] = listed
            resources[f"rel/{kind}"] = _resource(item, ["GET", "PUT", "PATCH", "DELETE"])
        resources["rel/queue_pool"] = _resource(f"{queue}/pool", ["GET"])
        resources["rel/rebalance"] = _resource("/rebalance", ["GET", "PUT", "DELETE"])
    return documents.encode({"resources": resources})


class HomeDocument:
    def __init__(self, admin: bool, pooling: bool) -> None:
        self._document = _home(admin, pooling)

    async def on_get(self, req: Request, resp: Response) -> None:
        resp.content_type = "application/json-home"
        resp.set_header("Cache-Control", "max-age=86400")
        resp.data = self._document


class Ping:
    """``GET /v2/ping``: whether every store of queues answers."""

    public = True

    def __init__(self, health: HealthService) -> None:
        self._health = health

    async def on_get(self, req: Request, resp: Response) -> None:
        await self._health.ping()  # API: 503 without a body; ours names the store
        resp.status = 204

    async def on_head(self, req: Request, resp: Response) -> None:
        resp.status = 204


class HealthCheck:
    """``GET /healthcheck``: whether to send requests here, in oslo.middleware's format."""

    public = True

    def __init__(self, health: HealthService) -> None:
        self._health = health

    async def on_get(self, req: Request, resp: Response) -> None:
        await self._health.ping_essential()
        resp.content_type = falcon.MEDIA_TEXT
        resp.text = "OK"

    on_head = on_get


class HealthProbe:
    """``GET /health``: whether every store answers, those of channels too; Centrifugo's path."""

    public = True

    def __init__(self, health: HealthService) -> None:
        self._health = health

    async def on_get(self, req: Request, resp: Response) -> None:
        await self._health.ping_all()
        resp.data = b"{}"

    on_head = on_get


class HealthReport:
    """``GET /v2/health``: every kind of operation, tried in every store."""

    def __init__(self, health: HealthService) -> None:
        self._health = health

    async def on_get(self, req: Request, resp: Response) -> None:
        healthy, report = await self._health.check()
        if not healthy:
            resp.status = errors.StoreUnavailable.status
            resp.set_header("Retry-After", str(errors.StoreUnavailable.retry))
        resp.data = documents.encode(report)
