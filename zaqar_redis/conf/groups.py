# SPDX-License-Identifier: Apache-2.0
"""The groups of options, with the settings that each is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct
from oslo_config import types

from zaqar_redis import rules
from zaqar_redis.api.api_key import ApiKeySettings
from zaqar_redis.api.console.settings import ConsoleSettings
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.api.tracing import TracingSettings
from zaqar_redis.api.websocket.front_end import WebSocketSettings
from zaqar_redis.auth import jwt_tokens
from zaqar_redis.auth.access_keys import AccessKeySettings
from zaqar_redis.auth.audit import AuditSettings
from zaqar_redis.auth.tokens import TokenSettings
from zaqar_redis.conf.options import Port
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.notifier import NotifierSettings
from zaqar_redis.notify.settings import HttpSettings
from zaqar_redis.realtime.bus import BusSettings
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.realtime.session.namespaces import ChannelOptions
from zaqar_redis.service.queue_history import HistorySettings
from zaqar_redis.service.queue_metrics import QueueMetricsSettings
from zaqar_redis.service.quotas import QuotaSettings
from zaqar_redis.storage.pools.retry import RetryPolicy

CHANNELS = "channels"
#: Stock Zaqar's name for it.
LISTEN = "drivers:transport:wsgi"
WEBSOCKET = "drivers:transport:websocket"
#: oslo.service's name, and its options.
SSL = "ssl"


class DeploymentSettings(Struct, frozen=True):
    pooling: Annotated[
        bool,
        "Distribute queues over pools. When this is off, or there are no pools, all queues are in "
        "[storage] uri.",
    ] = True


class AuthSettings(Struct, frozen=True):
    strategy: Annotated[
        tuple[str, ...],
        "How the service finds out who sends a request: none, key, jwt, keystone, or several of "
        "them. The first that finds a credential of its kind decides. With none everybody may act "
        "for every project, and with admin_mode for the operator.",
    ] = ("none",)
    insecure: Annotated[
        bool, "Allow the strategy none on addresses other than loopback; same as --insecure."
    ] = False


class ListenSettings(Struct, frozen=True):
    bind: Annotated[str, types.HostAddress(), "Address to listen on."] = "127.0.0.1"
    port: Annotated[int, Port(type_name="port value"), "Port to listen on."] = 8888


class WebSocketListenSettings(Struct, frozen=True):
    port: Annotated[
        int,
        Port(type_name="port value"),
        "A second port to listen on, for clients that expect the WebSocket API on a port of its "
        "own, such as 9000; 0: none. The API is at /v2/ws, and at /, on either port.",
    ] = 0


class MetricsSettings(Struct, frozen=True):
    bind: Annotated[
        str,
        types.HostAddress(),
        "Address on which metrics are served: to everybody who reaches it, without authentication, "
        "by plain HTTP, whatever [ssl] says.",
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Port(type_name="port value"),
        "Port on which metrics are served for Prometheus, at /metrics; 0: none.",
    ] = 0


class ProcessSettings(Struct, frozen=True):
    workers: Annotated[
        int, Meta(ge=1, le=256), "Worker processes; one for each core is enough."
    ] = 1
    graceful_timeout: Annotated[
        int, Meta(ge=1), "Seconds that open requests have to finish when the service stops."
    ] = 30
    log_level: Annotated[
        Literal["debug", "info", "warning", "error", "critical"],
        "Lowest level that is logged, to standard error.",
    ] = "info"
    shutdown_delay: Annotated[
        float,
        Meta(ge=0),
        "Seconds that the service goes on when it is asked to stop, while /healthcheck and "
        "/healthcheck/ready answer 503: load balancers notice before it refuses connections.",
    ] = 0.0
    log_levels: Annotated[
        tuple[str, ...],
        "Levels of single loggers, like zaqar_redis.auth=debug, uvicorn.error=warning.",
    ] = ()
    log_format: Annotated[
        Literal["plain", "json", "oslo"],
        "Format of the log, a line for each event. oslo: that of oslo.log, with its options in "
        "[DEFAULT] instead of log_level; it needs the extra openstack.",
    ] = "plain"


class SslSettings(Struct, frozen=True):
    cert_file: Annotated[
        str | None,
        "File with the certificate, and its chain. With it the service speaks TLS alone, but for "
        "the port for metrics.",
    ] = None
    key_file: Annotated[
        str | None, "File with its private key, without a passphrase. Default: cert_file."
    ] = None
    ca_file: Annotated[
        str | None, "File with certificates of authorities: clients must have a certificate of one."
    ] = None


class StorageSettings(Struct, frozen=True):
    uri: Annotated[
        str,
        rules.SECRET,
        "The store. embedded://[/directory] runs a private Redis or Valkey; "
        "redis://[[user]:password@]host[:port][/database], rediss:// (TLS), unix:///socket, "
        "redis+sentinel://host,host/name and redis+cluster://host,host use yours; memory:// "
        "stores everything in one process, for development. Other storage drivers add other "
        "schemes.",
    ] = "embedded://"
    control_uri: Annotated[
        str | None,
        rules.SECRET,
        "The Redis that stores the pools, the flavors, the catalogue of which queue is in which "
        "pool, and access keys. Default: that of uri.",
    ] = None


class ChannelsSettings(Struct, frozen=True):
    enabled: Annotated[bool, "Serve channels."] = True
    namespaces: Annotated[
        tuple[str, ...],
        "Names of namespaces; each has its options in a group [channels:NAME]. The options in "
        "this group are for channels without a namespace.",
    ] = ()
    uris: Annotated[
        tuple[str, ...],
        "URIs of several Redis; each channel is in one of them, chosen by its name and their "
        "order. So all nodes must have the same order, and a new URI is added at the end. Empty: "
        "the store of [storage] uri.",
    ] = ()
    bus: Annotated[
        tuple[str, ...],
        "URI of the bus that carries publications and other messages between workers and nodes; "
        "several of one kind share the channels, as with uris. redis://HOST, zeromq://HOST, "
        "nats://HOST, or memory:// for one worker alone. Empty: PUB/SUB of the Redis that have "
        "the channels, which also sends a publication in the step that stores it.",
    ] = ()
    project: Annotated[str, "Project that the channels belong to."] = "default"
    allowed_origins: Annotated[
        tuple[str, ...], "Globs; connections from web pages of other origins are refused."
    ] = ()


#: By group: settings, and which options of them are there; without names, all.
GROUPS: Mapping[str | None, Sequence[tuple[type[Struct], tuple[str, ...]]]] = {
    None: (
        (ApiSettings, ("admin_mode",)),
        (DeploymentSettings, ()),
        (ApiSettings, ("enable_checksum",)),
    ),
    "api": ((ApiSettings, ("strict",)),),
    "auth": ((AuthSettings, ()), (AccessKeySettings, ())),
    "audit": ((AuditSettings, ()),),
    LISTEN: ((ListenSettings, ()),),
    WEBSOCKET: ((WebSocketListenSettings, ()), (WebSocketSettings, ())),
    "server": (
        (ProcessSettings, ()),
        (
            ApiSettings,
            (
                "max_connections",
                "request_timeout",
                "max_in_flight",
                "max_in_flight_project",
                "access_log",
            ),
        ),
    ),
    SSL: ((SslSettings, ()),),
    jwt_tokens.GROUP: ((jwt_tokens.JwtSettings, ()),),
    "storage": ((StorageSettings, ()), (RetryPolicy, ()), (ApiSettings, ("sweep_interval",))),
    "redis": ((BatchSettings, ()),),
    "history": ((HistorySettings, ()),),
    "transport": (
        (rules.Limits, ()),
        (ApiSettings, ("message_encryption_key", "max_waiting")),
    ),
    "quota": ((QuotaSettings, ()),),
    "notification": ((NotifierSettings, ()), (HttpSettings, ()), (MailSettings, ())),
    "tracing": ((TracingSettings, ()),),
    "metrics": ((MetricsSettings, ()), (QueueMetricsSettings, ())),
    "signed_url": ((ApiSettings, ("secret_key",)),),
    "console": ((ConsoleSettings, ()),),
    CHANNELS: (
        (ChannelsSettings, ()),
        (BusSettings, ()),
        (SessionSettings, ()),
        (TokenSettings, ()),
        (ApiKeySettings, ()),
        (ChannelOptions, ()),
    ),
}
