# SPDX-License-Identifier: Apache-2.0
"""Subscriptions of queues and topics, and the notifier that delivers to them, put together."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from msgspec import Raw

from zaqar_redis import errors, rules
from zaqar_redis.api.rest.subscriptions import SubscriptionHandlers
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.api.subscription_routes import subscription_routes
from zaqar_redis.auth.policy import PolicyEnforcer
from zaqar_redis.auth.signed_urls import UrlSigner
from zaqar_redis.notify.notifier import Notifier
from zaqar_redis.notify.target_context import TargetContext
from zaqar_redis.notify.targets import Targets
from zaqar_redis.notify.tester import SubscriptionTester
from zaqar_redis.notify.trusts import TrustClient, TrustService
from zaqar_redis.realtime.engine import Dedup
from zaqar_redis.realtime.node.node import Node
from zaqar_redis.realtime.node.project_context import ProjectContext
from zaqar_redis.realtime.protocol.codes import CommandRejected
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.notices import SubscriptionNotices
from zaqar_redis.service.queues import QueueService
from zaqar_redis.service.replays import ReplayService
from zaqar_redis.service.subscription_options import SubscriptionOptions
from zaqar_redis.service.subscription_trusts import SubscriptionTrusts
from zaqar_redis.service.subscriptions import SubscriptionService
from zaqar_redis.storage.contract import Driver

LOG = logging.getLogger(__name__)


class Notifications:
    def __init__(
        self,
        driver: Driver,
        settings: ApiSettings,
        queues: QueueService,
        messages: MessageService,
        signer: UrlSigner,
        trusts: TrustClient | None,
        node: Node | None,
        *,
        delivers: bool,
    ) -> None:
        """*trusts*: of Keystone; None: there are none.  *node*: of channels; None: there are none.
        *delivers*: this process has a notifier.
        """
        self._settings = settings
        self._trusts = TrustService(trusts)
        notices = None
        if settings.notifier.require_confirmation and driver.subscription_deliveries is not None:
            notices = SubscriptionNotices(signer, driver.subscription_deliveries.send_notice)
        self.subscriptions = SubscriptionService(
            driver,
            settings.limits,
            queues,
            self._check_subscriber,
            notices,
            None if trusts is None else SubscriptionTrusts(self._trusts),
        )
        self._replays = ReplayService(driver.messages, messages, self.subscriptions)
        self._targets = Targets(
            TargetContext(
                messages,
                driver.messages.dead_letter,
                None if node is None else _NodeChannels(node),
                settings.webhooks,
                settings.mail,
                self._trusts,
            )
        )
        self._tester = SubscriptionTester(self.subscriptions, self._targets.find)
        self._notifier: Notifier | None = None
        if delivers:
            self._notifier = Notifier(driver, messages, self._targets, settings.notifier)

    def routes(self, policy: PolicyEnforcer) -> list[ApiRoute]:
        services = self.subscriptions, self._replays, self._tester, policy
        of_queues = SubscriptionHandlers(*services)
        of_topics = SubscriptionHandlers(*services, rules.topic)
        return [
            *subscription_routes(of_queues, "/v2/queues/{queue}"),
            *subscription_routes(of_topics, "/v2/topics/{topic}"),
        ]

    async def start(self) -> None:
        if self._notifier is not None:
            await self._notifier.start()

    async def close(self) -> None:
        if self._notifier is not None:
            await self._notifier.close()
        await self._targets.close()
        await self._trusts.close()

    def _check_subscriber(self, uri: str, options: SubscriptionOptions) -> None:
        """Raises BadRequest, naming the field, and Unavailable: a `CheckSubscriber`."""
        scheme = rules.subscriber_scheme(uri, self._targets.schemes)
        try:
            target = self._targets.find(uri)
        except errors.BadConfiguration as error:
            LOG.error(
                "nobody can subscribe with this scheme",
                extra={"action": "target_failed", "error": errors.reason(error)},
            )
            why = f"This service cannot deliver to {scheme}: at present; its log says why."
            raise errors.Unavailable(why=why) from error
        if target is not None:
            target.check(uri, options)
        settings = self._settings
        must_confirm = settings.notifier.require_confirmation
        if must_confirm and scheme == "mailto" and not settings.mail.external_confirmation_url:
            raise errors.BadRequest(
                why='A "subscriber" with mailto: cannot confirm here, as it must: the operator has '
                "not set [notification] external_confirmation_url, the page that links in mails "
                "lead to."
            )


class _NodeChannels:
    def __init__(self, node: Node) -> None:
        self._node = node

    def check(self, channel: str) -> None:
        try:
            self._node.namespaces.options(channel)
        except CommandRejected as rejected:
            raise errors.BadRequest(why=f'"subscriber": {channel}: {rejected}.') from None

    async def publish(
        self, project: str, channel: str, data: bytes, tags: Mapping[str, str], key: str
    ) -> None:
        context = ProjectContext(self._node, project)
        try:
            await context.publish(channel, Raw(data), tags=dict(tags), dedup=Dedup(key))
        except CommandRejected as rejected:
            raise errors.BadRequest(why=str(rejected)) from None
