# SPDX-License-Identifier: Apache-2.0
"""Version discovery, the home document, ping and health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from zaqar_redis import errors
from zaqar_redis.api import documents
from zaqar_redis.api.exchange import DONE, TEXT, Answer, Request
from zaqar_redis.api.schemas import HomeOut, VersionOut, VersionsOut
from zaqar_redis.keyspace.script import ComposedVerbs, Steps, verb
from zaqar_redis.service.health import HealthService

JSON_HOME = "application/json-home"
_MEDIA_TYPE = {"base": "application/json", "type": "application/vnd.openstack.messaging-v2+json"}
_VERSION = {
    "id": "2",
    "status": "CURRENT",
    "updated": "2014-9-24T04:06:47Z",
    "media-types": [_MEDIA_TYPE],
    "links": [{"href": "/v2/", "rel": "self"}],
}


async def list_versions(request: Request[None, None]) -> Answer:
    """Lists the versions of the API."""
    return Answer(documents.encode(VersionsOut([_VERSION])), 300)


async def show_version(request: Request[None, None]) -> Answer:
    """Shows this version of the API: clients that have its address look here first."""
    return Answer(documents.encode(VersionOut(_VERSION)))


def _resource(template: str, allow: str, hints: dict[str, Any] | None = None) -> Any:
    """One JSON-Home resource; ``{name}`` in a template is a path variable."""
    path, _, query = template.partition("{?")
    names = [part.split("}")[0] for part in path.split("{")[1:]]
    names += query.rstrip("}").split(",") if query else []
    document: dict[str, Any] = {
        "hints": {"allow": allow.split(), "formats": {"application/json": {}}} | (hints or {})
    }
    if names:
        document["href-template"] = f"/v2{template}"
        document["href-vars"] = {name: f"param/{name}" for name in names}
    else:
        document["href"] = f"/v2{template}"
    return document


def _home(admin: bool, pooling: bool) -> bytes:
    queue, topic = "/queues/{queue_name}", "/topics/{topic_name}"
    messages, message = f"{queue}/messages", f"{queue}/messages/{{message_id}}"
    claim, subscription = (
        f"{queue}/claims/{{claim_id}}",
        f"{queue}/subscriptions/{{subscription_id}}",
    )
    listed = "{?limit,marker,echo,include_claimed,include_delayed,wait}"
    history = "{?limit,marker,reverse,include_delayed,wait}"
    accept = {"accept-post": ["application/json"]}
    patch = {"accept-patch": ["application/openstack-messaging-v2.0-json-patch"]}
    resources: dict[str, tuple[Any, ...]] = {
        "queues": ("/queues{?marker,limit,detailed,name,with_count,with_stats}", "GET"),
        "queue": (queue, "GET PUT PATCH DELETE", patch),
        "queue_stats": (f"{queue}/stats", "GET"),
        "queue_share": (f"{queue}/share", "POST", accept),
        "queue_purge": (f"{queue}/purge", "POST", accept),
        "messages": (f"{messages}{listed}", "GET"),
        "post_messages": (messages, "POST", accept),
        "messages_delete": (f"{messages}{{?ids,pop,claim_ids}}", "DELETE"),
        "message_get": (message, "GET"),
        "message_delete": (f"{message}{{?claim_id}}", "DELETE"),
        "claim": (claim, "GET"),
        "post_claim": (f"{queue}/claims{{?limit,wait}}", "POST", accept),
        "patch_claim": (claim, "PATCH", accept),
        "delete_claim": (claim, "DELETE"),
        "subscriptions": (f"{queue}/subscriptions{{?marker,limit}}", "GET POST", accept),
        "subscription": (subscription, "GET PATCH DELETE"),
        "subscription_confirm": (f"{subscription}/confirm", "PUT"),
        "topics": ("/topics{?marker,limit,detailed,name}", "GET"),
        "topic": (topic, "GET PUT PATCH DELETE", patch),
        "topic_stats": (f"{topic}/stats", "GET"),
        "topic_purge": (f"{topic}/purge", "POST", accept),
        "topic_messages": (f"{topic}/messages{history}", "GET"),
        "publish_messages": (f"{topic}/messages", "POST", accept),
        "topic_message": (f"{topic}/messages/{{message_id}}", "GET DELETE"),
        "ping": ("/ping", "GET HEAD"),
    }
    if pooling:
        resources["schedules"] = ("/schedules{?marker,limit}", "GET")
        resources["schedule"] = ("/schedules/{schedule_name}", "GET PUT DELETE")
        resources["quota"] = ("/quotas/{project_id}", "GET PUT DELETE" if admin else "GET")
    if admin and pooling:
        resources["quotas"] = ("/quotas{?marker,limit}", "GET")
    if admin:
        resources["health"] = ("/health", "GET")
    if admin and pooling:
        for kind in ("pool", "flavor"):
            resources[f"{kind}s"] = (f"/{kind}s{{?marker,limit,detailed}}", "GET")
            resources[kind] = (f"/{kind}s/{{{kind}_name}}", "GET PUT PATCH DELETE")
        resources["queue_pool"] = (f"{queue}/pool", "GET")
        resources["rebalance"] = ("/rebalance", "GET PUT DELETE")
    shown = {f"rel/{name}": _resource(*each) for name, each in resources.items()}
    return documents.encode(HomeOut(shown))


def home_document(admin: bool, pooling: bool) -> Callable[..., Awaitable[Answer]]:
    """Returns the handler of the home document."""
    cached = (("cache-control", "max-age=86400"),)
    answer = Answer(_home(admin, pooling), headers=cached, media_type=JSON_HOME)

    async def get_home(request: Request[None, None]) -> Answer:
        """Shows every resource with the template of its address, as JSON Home.

        The document may be kept for a day.
        """
        return answer

    return get_home


class HealthHandlers(ComposedVerbs):
    def __init__(self, health: HealthService) -> None:
        self._health = health

    @verb
    def ping(self, request: Request[None, None]) -> Steps[Answer]:
        """Asks whether every store of queues answers."""
        yield self._health.ping()  # API: 503 without a body; ours names the store
        return DONE

    async def ping_worker(self, request: Request[None, None]) -> Answer:
        """Asks whether the service answers, and no store."""
        return DONE

    async def live(self, request: Request[None, None]) -> Answer:
        """Asks whether the process runs, and no store: whether to restart it."""
        return Answer(b"OK", media_type=TEXT)

    async def ready(self, request: Request[None, None]) -> Answer:
        """Asks whether every store answers within two seconds, and the service goes on.

        503 names the stores that do not answer, by pool; so it is from the moment on at which
        the service is asked to stop.
        """
        await self._health.ready()
        return Answer(b"OK", media_type=TEXT)

    @verb
    def check(self, request: Request[None, None]) -> Steps[Answer]:
        """Asks whether requests are to be sent here, in oslo.middleware's format.

        For load balancers: asks the service's own store and the control store, but no pool. 503
        also while the service is about to stop.
        """
        yield self._health.ping_essential()
        return Answer(b"OK", media_type=TEXT)

    @verb
    def probe(self, request: Request[None, None]) -> Steps[Answer]:
        """Asks whether every store answers, those of channels too; Centrifugo's path."""
        yield self._health.ping_all()
        return Answer(b"{}")

    async def report(self, request: Request[None, None]) -> Answer:
        """Tries every kind of operation in every store.

        Creates a queue in a project of its own, posts, lists, claims and deletes a hundred
        messages, and deletes the queue.
        """
        healthy, report = await self._health.check()
        document = documents.encode(report)
        if healthy:
            return Answer(document)
        retry = ("retry-after", str(errors.StoreUnavailable.retry))
        return Answer(document, errors.StoreUnavailable.status, (retry,))
