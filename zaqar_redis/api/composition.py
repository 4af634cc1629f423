# SPDX-License-Identifier: Apache-2.0
"""The services of a process, put together from its settings: here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zaqar_redis.api.channels import ChannelsFrontEnd
from zaqar_redis.api.console.settings import ConsoleSettings
from zaqar_redis.api.notifications import Notifications
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.api.tracing import RequestTracing
from zaqar_redis.auth.access import Access, open_access
from zaqar_redis.auth.audit import AuditLog
from zaqar_redis.auth.signed_urls import UrlSigner
from zaqar_redis.notify.trusts import TrustClient
from zaqar_redis.service.administration import AdministrationService
from zaqar_redis.service.claims import ClaimService
from zaqar_redis.service.encryption import BodyCipher
from zaqar_redis.service.health import HealthService
from zaqar_redis.service.long_polls import LongPoll
from zaqar_redis.service.messages import MessageService
from zaqar_redis.service.overview import OperatorServices
from zaqar_redis.service.queue_channels import QueueChannelService
from zaqar_redis.service.queues import QueueService
from zaqar_redis.service.quota_enforcer import QuotaEnforcer
from zaqar_redis.service.requests_in_flight import RequestsInFlight
from zaqar_redis.service.schedules import ScheduleService
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.pools import PooledDriver

#: Creates the front end of channels; None: there are none.
CreateChannels = Callable[[Access, QueueChannelService], ChannelsFrontEnd | None]


@dataclass(frozen=True, slots=True)
class ServiceParts:
    """What a process brings to its services, besides settings."""

    driver: Driver
    #: None: that of everybody
    access: Access | None = None
    channels: CreateChannels | None = None
    #: None: there is no console
    console: ConsoleSettings | None = None
    #: closed with the application; None: there is no audit log
    audit: AuditLog | None = None
    #: closed with the application; None: requests are no spans
    tracing: RequestTracing | None = None
    #: of Keystone; None: there are none
    trusts: TrustClient | None = None
    #: it serves one command of an operator, whom no quota limits
    for_command: bool = False
    #: whether the service was asked to stop, and goes on for a while
    is_stopping: Callable[[], bool] = lambda: False
    #: whether it is this process that reads the metrics of queues
    reads_queue_metrics: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True)
class Services:
    parts: ServiceParts
    settings: ApiSettings
    #: of the parts, or that of everybody
    access: Access
    signer: UrlSigner
    in_flight: RequestsInFlight
    long_polls: LongPoll
    #: what projects use, and may; None: nobody has quotas
    quotas: QuotaEnforcer | None
    #: the same, if they limit the requests of this process
    enforced_quotas: QuotaEnforcer | None
    queues: QueueService
    messages: MessageService
    claims: ClaimService
    administration: AdministrationService
    health: HealthService
    notifications: Notifications
    #: None: there is no control store for them
    schedules: ScheduleService | None
    #: None: there are none
    channels: ChannelsFrontEnd | None
    #: None: there is no console
    operators: OperatorServices | None

    @property
    def driver(self) -> Driver:
        return self.parts.driver

    @property
    def pooled(self) -> PooledDriver | None:
        """The driver, if it has pools."""
        return self.driver if isinstance(self.driver, PooledDriver) else None


def compose(settings: ApiSettings, parts: ServiceParts) -> Services:
    driver, limits = parts.driver, settings.limits
    in_flight = RequestsInFlight(settings.max_in_flight, settings.max_in_flight_project)
    long_polls = LongPoll(driver.feed, settings.max_waiting, in_flight)
    cipher = BodyCipher(settings.encryption_key) if settings.encryption_key else None
    signer = UrlSigner(settings.signing_key)
    quotas, schedules = None, None
    if isinstance(driver, PooledDriver):
        quotas = QuotaEnforcer(driver, driver.control.quotas, settings.quota)
    enforced = None if parts.for_command else quotas
    queues = QueueService(driver, limits, cipher is not None, enforced)
    messages = MessageService(driver, limits, cipher, long_polls, enforced)
    if isinstance(driver, PooledDriver):
        schedules = ScheduleService(driver.control, messages, limits, cipher)
    access = parts.access or open_access(is_admin=settings.admin_mode)
    channels = None
    if parts.channels is not None:
        channels = parts.channels(access, QueueChannelService(driver, messages, limits))
    operators, node = None, None
    if channels is not None:
        node = channels.node
        node.sessions.quota = enforced
    if parts.console is not None:
        operators = OperatorServices(driver, settings.history, node)
    notifications = Notifications(
        driver,
        settings,
        queues,
        messages,
        signer,
        parts.trusts,
        node,
        delivers=settings.notifier.in_service and not parts.for_command,
    )
    return Services(
        parts=parts,
        settings=settings,
        access=access,
        signer=signer,
        in_flight=in_flight,
        long_polls=long_polls,
        quotas=quotas,
        enforced_quotas=enforced,
        queues=queues,
        messages=messages,
        claims=ClaimService(driver, limits, messages, long_polls),
        administration=AdministrationService(driver, limits, messages, enforced),
        health=HealthService(driver, None if node is None else node.engine.ping, parts.is_stopping),
        notifications=notifications,
        schedules=schedules,
        channels=channels,
        operators=operators,
    )
