# SPDX-License-Identifier: Apache-2.0
"""The settings of the application, which the operator chooses."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from zaqar_redis import rules
from zaqar_redis.api.websocket.front_end import WebSocketSettings
from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.notifier import NotifierSettings
from zaqar_redis.notify.settings import HttpSettings
from zaqar_redis.service.queue_history import HistorySettings
from zaqar_redis.service.queue_metrics import QueueMetricsSettings
from zaqar_redis.service.quotas import QuotaSettings


class ApiSettings(msgspec.Struct, frozen=True):
    limits: rules.Limits = rules.Limits()
    quota: QuotaSettings = QuotaSettings()
    websocket: WebSocketSettings = WebSocketSettings()
    #: None: nobody wants metrics
    metrics: QueueMetricsSettings | None = None
    history: HistorySettings = HistorySettings()
    notifier: NotifierSettings = NotifierSettings()
    webhooks: HttpSettings = HttpSettings()
    mail: MailSettings = MailSettings()
    admin_mode: Annotated[
        bool,
        "With [auth] strategy = none, serve the calls for operators, like /v2/health, /v2/pools "
        "and /v2/flavors, to everybody who can reach this service. With other strategies, like "
        "keystone, administrators have them, whatever this is.",
    ] = False
    strict: Annotated[
        bool,
        "Refuse requests to Zaqar's API that have parameters, fields, reserved attributes or "
        "options that are unknown, and metadata for a queue that exists with other metadata. "
        "Otherwise they have no effect, as in Zaqar, and the header Ignored of the answer names "
        "them.",
    ] = False
    enable_checksum: Annotated[bool, "Add a checksum of the body to every message."] = False
    signing_key: Annotated[
        str | None,
        rules.SECRET,
        "Key that creates and checks pre-signed URLs. Without it there are none.",
    ] = msgspec.field(default=None, name="secret_key")
    encryption_key: Annotated[
        str | None,
        rules.SECRET,
        "Key that encrypts message bodies (AES-256-GCM) in queues that set "
        "_enable_encrypt_messages. Without it such queues cannot be created: there is no built-in "
        "key.",
    ] = msgspec.field(default=None, name="message_encryption_key")
    max_waiting: Annotated[
        int, Meta(ge=0), "Maximum number of requests of one worker that wait for messages."
    ] = 10_000
    sweep_interval: Annotated[
        float,
        Meta(ge=1.0),
        "Seconds between two rounds of the sweeper, which removes what has expired.",
    ] = 60.0
    max_connections: Annotated[
        int,
        Meta(ge=1),
        "Maximum number of open connections of one worker; beyond, new ones get 503. Each request "
        "that waits for messages uses one.",
    ] = 16_384
    #: as many commands as may be in flight to a store
    max_in_flight: Annotated[
        int,
        Meta(ge=1),
        "Maximum number of requests that one worker answers at a time; beyond, requests get 503. "
        "Those that wait for messages are not counted while they do.",
    ] = 8192
    #: half: a project that is too fast leaves the other half to all others
    max_in_flight_project: Annotated[
        int,
        Meta(ge=1),
        "Maximum number of them of one project, in one worker; beyond, its requests get 503.",
    ] = 4096
    access_log: Annotated[
        bool,
        "Log a line for each request, and for each socket when it ends: method, path, status, "
        "duration, who.",
    ] = False
    request_timeout: Annotated[
        float,
        Meta(ge=1.0),
        "Seconds that a client may take to send one request; then it gets 408. A client that reads "
        "nothing of an answer for as long is cut off.",
    ] = 60.0
