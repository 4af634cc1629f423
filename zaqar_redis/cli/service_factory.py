# SPDX-License-Identifier: Apache-2.0
"""Factories: the parts of the service, built from options."""

from __future__ import annotations

import difflib
import fnmatch
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from urllib.parse import urlsplit

import msgspec
from oslo_config import cfg

from zaqar_redis import clock, errors, rules
from zaqar_redis import conf as configuration
from zaqar_redis.api.api_key import ApiKeySettings
from zaqar_redis.api.channels import ChannelSettings, ChannelsFrontEnd
from zaqar_redis.api.console import has_charts
from zaqar_redis.api.console.settings import ConsoleSettings, OpenIdClient
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.api.tracing import RequestTracing, TracingSettings
from zaqar_redis.api.tracing import load as load_tracing
from zaqar_redis.api.websocket.front_end import WebSocketSettings
from zaqar_redis.auth import access as auth
from zaqar_redis.auth import key_checks, keystone, tickets
from zaqar_redis.auth.access import Access
from zaqar_redis.auth.access_keys import AccessKeySettings, SecretSeal
from zaqar_redis.auth.audit import AuditLog, AuditSettings, check_file
from zaqar_redis.auth.identity import ADMIN, MEMBER, READER
from zaqar_redis.auth.jwt_tokens import JwtSettings
from zaqar_redis.auth.policy import PolicyEnforcer
from zaqar_redis.auth.strategy import StrategyContext
from zaqar_redis.auth.tokens import TokenSettings
from zaqar_redis.conf import channels as channel_options
from zaqar_redis.conf import checks
from zaqar_redis.conf.groups import (
    AuthSettings,
    ChannelsSettings,
    DeploymentSettings,
    MetricsSettings,
    ProcessSettings,
    StorageSettings,
)
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import embedded
from zaqar_redis.keyspace.settings import BatchSettings
from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.notifier import NotifierSettings
from zaqar_redis.notify.settings import HttpSettings
from zaqar_redis.notify.trusts import TrustClient
from zaqar_redis.realtime.bus import Bus, BusSettings
from zaqar_redis.realtime.engine import Engine
from zaqar_redis.realtime.engines.memory import MemoryEngine
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.load import load_bus
from zaqar_redis.realtime.node.queue_channels import QueueChannels
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.realtime.session.namespaces import Namespaces
from zaqar_redis.service import queue_metrics
from zaqar_redis.service.queue_history import HistorySettings
from zaqar_redis.service.queue_metrics import QueueMetricsSettings
from zaqar_redis.service.quotas import QuotaSettings
from zaqar_redis.storage import pools
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import Control
from zaqar_redis.storage.load import can_control, load, load_control
from zaqar_redis.storage.pools.retry import RetryPolicy


def problems(conf: cfg.ConfigOpts) -> list[str]:
    """Returns why no service can start with these options, a line for each reason.

    Invalid values of single options are left to `zaqar_redis.conf.problems`.
    """
    found: list[str] = []
    for part in (_server, _store, _access, _channels, _targets, tracing):
        try:
            part(conf)
        except cfg.Error:
            continue  # an invalid value
        except errors.BadConfiguration as error:
            found += [line for line in str(error).splitlines() if line not in found]
    return found


def _server(conf: cfg.ConfigOpts) -> None:
    chosen = configuration.settings(conf, QueueMetricsSettings)
    found = [
        *checks.check_authentication(conf),
        *checks.check_ports(conf),
        *queue_metrics.problems(chosen),
        *checks.check_certificates(conf),
        *checks.check_log_levels(conf),
        *checks.check_client_ids(configuration.settings(conf, rules.Limits)),
    ]
    if found:
        raise errors.BadConfiguration("\n".join(found))


def _store(conf: cfg.ConfigOpts) -> None:
    uri = _uri(conf)
    workers = configuration.settings(conf, ProcessSettings).workers
    if urlsplit(uri).scheme == "memory" and workers > 1:
        raise errors.BadConfiguration("memory:// works with one worker only")
    store = configuration.settings(conf, BatchSettings)
    if store.ack_replicas and store.ack_timeout >= store.timeout:
        raise errors.BadConfiguration(
            f"[redis] ack_timeout: it must be less than timeout ({store.timeout:g})"
        )
    bus = configuration.settings(conf, ChannelsSettings).bus
    if workers > 1 and any(urlsplit(each).scheme == "memory" for each in bus):
        raise errors.BadConfiguration(
            "[channels] bus: memory:// works with one worker only: others would get no messages"
        )
    driver(conf, uri)()


def _channels(conf: cfg.ConfigOpts) -> None:
    channels(conf, _uri(conf))


def _targets(conf: cfg.ConfigOpts) -> None:
    # Their clients take a while to import; what is built in is right.
    webhooks = configuration.settings(conf, HttpSettings)
    if webhooks != HttpSettings():
        from zaqar_redis.notify.targets.http import HttpTarget

        HttpTarget(webhooks)
    mail = configuration.settings(conf, MailSettings)
    if mail != MailSettings():
        from zaqar_redis.notify.targets.mail import MailTarget

        MailTarget(mail)
    trusts(conf)
    must_confirm = configuration.settings(conf, NotifierSettings).require_confirmation
    if must_confirm and not configuration.settings(conf, ApiSettings).signing_key:
        raise errors.BadConfiguration(
            "[notification] require_confirmation: subscribers confirm by pre-signed URLs; set "
            "[signed_url] secret_key"
        )


def _access(conf: cfg.ConfigOpts) -> None:
    policy = access(conf, _uri(conf)).policy
    found = list(_check_roles(conf, policy)) + list(_check_audit(conf, policy))
    if found:
        raise errors.BadConfiguration("\n".join(found))
    audit = configuration.settings(conf, AuditSettings)
    AuditLog(audit, delay=True).close()
    if audit.audit_file:
        check_file(audit.audit_file)


def command_audit(conf: cfg.ConfigOpts) -> AuditLog | None:
    """Returns the audit log of commands that work on the store; None: there is no file."""
    settings = configuration.settings(conf, AuditSettings)
    # Most commands change nothing, and must not create the file as another user than the service.
    return AuditLog(settings, delay=True) if settings.audit_file else None


def _check_roles(conf: cfg.ConfigOpts, policy: PolicyEnforcer) -> Iterator[str]:
    if "jwt" not in configuration.settings(conf, AuthSettings).strategy:
        return
    for each in configuration.settings(conf, JwtSettings).roles:
        role = each.partition("=")[0]
        if role.lower() not in {READER, MEMBER, ADMIN, *policy.roles}:
            # Stock's rules let every role write that is not the reader's: a misspelt one, too.
            yield f'[auth:jwt] roles: no rule of the policy names the role "{role}"'


def _check_audit(conf: cfg.ConfigOpts, policy: PolicyEnforcer) -> Iterator[str]:
    for glob in configuration.settings(conf, AuditSettings).audit_actions:
        if not fnmatch.filter(policy.rules, glob):
            near = difflib.get_close_matches(glob, policy.rules, 1, 0.5) or ["queues:delete"]
            yield f'[audit] actions: the policy has no rule "{glob}"; there is e.g. {near[0]}'


def _uri(conf: cfg.ConfigOpts) -> str:
    """Returns the store's URI; for an embedded one, that of its running server."""
    uri = configuration.settings(conf, StorageSettings).uri
    try:
        return embedded.DataDirectory(uri).uri if urlsplit(uri).scheme == "embedded" else uri
    except ValueError as error:  # e.g. an unclosed bracket
        raise errors.BadConfiguration(f"[storage] uri: {error}") from error


def driver(conf: cfg.ConfigOpts, uri: str) -> Callable[[], Driver]:
    """Returns a factory of the driver for the store at *uri* and, unless off, its pools."""
    options = msgspec.structs.asdict(configuration.settings(conf, BatchSettings))
    quota = configuration.settings(conf, QuotaSettings)
    control = configuration.settings(conf, StorageSettings).control_uri
    pooling = configuration.settings(conf, DeploymentSettings).pooling
    # Another driver's store may not support pools; it works without.
    if not pooling or not (control or can_control(uri)):
        if quota != QuotaSettings():
            raise errors.BadConfiguration(
                "[quota]: quotas need a control store; set pooling, and for a store of another "
                "driver [storage] control_uri"
            )
        return lambda: load(uri, options)
    retry = configuration.settings(conf, RetryPolicy)
    return lambda: pools.create(uri, control or uri, options, retry)


def access(conf: cfg.ConfigOpts, uri: str) -> Access:
    """Returns who may use the service.  Raises BadConfiguration."""
    context = StrategyContext(
        conf, partial(configuration.settings, conf), partial(access_key_store, conf, uri)
    )
    return auth.load(configuration.settings(conf, AuthSettings).strategy, context)


def trusts(conf: cfg.ConfigOpts) -> TrustClient | None:
    """Returns what asks Keystone for trusts; None: there are none.  Raises BadConfiguration."""
    if "keystone" not in configuration.settings(conf, AuthSettings).strategy:
        return None
    return keystone.trusts(conf)


def access_key_store(conf: cfg.ConfigOpts, uri: str) -> Control:
    """Returns the store of the access keys: the control store.  Raises BadConfiguration."""
    options = msgspec.structs.asdict(configuration.settings(conf, BatchSettings))
    return load_control(configuration.settings(conf, StorageSettings).control_uri or uri, options)


def channels(
    conf: cfg.ConfigOpts,
    uri: str,
    console: ConsoleSettings | None = None,
    *,
    for_command: bool = False,
) -> Callable[[Access, QueueChannels], ChannelsFrontEnd | None]:
    """Returns a factory of the channels; it returns None when they are off.

    They use the store at *uri* unless they have their own, and take tickets of the *console*.
    Those *for_command* serve the command alone, and accept no clients.  Raises BadConfiguration
    for an unusable store or option.
    """
    shared = configuration.settings(conf, ChannelsSettings)
    # Another driver's store may not be a Redis; queues work without channels.
    if not (shared.enabled and (shared.uris or can_control(uri))):
        return lambda access, queues: None
    key = configuration.settings(conf, ApiKeySettings)
    verifier = configuration.settings(conf, TokenSettings)
    if found := key_checks.problems(verifier):
        raise errors.BadConfiguration("\n".join(found))
    given = ChannelSettings(
        namespaces=channel_options.namespaces(conf),
        tokens=verifier,
        session=configuration.settings(conf, SessionSettings),
        allowed_origins=shared.allowed_origins,
        project=shared.project,
        api_key=msgspec.structs.replace(key, insecure=True) if for_command else key,
        ticket_secret=b"" if console is None else console.secret,
        accepts_clients=not for_command,
    )
    batch = configuration.settings(conf, BatchSettings)
    if shared.bus and not shared.uris and urlsplit(uri).scheme == "memory":
        _check_memory(shared.bus, given.namespaces)
    bus_settings = configuration.settings(conf, BusSettings)

    def engine() -> Engine:
        return _engine(shared.uris, uri, batch, _bus(shared.bus, bus_settings))

    engine()  # reports an unusable URI before any worker starts
    return lambda access, queues: ChannelsFrontEnd(engine(), given, access, queues)


def channel_stores(conf: cfg.ConfigOpts) -> Sequence[Driver]:
    """Returns drivers of the stores that channels have of their own."""
    options = msgspec.structs.asdict(configuration.settings(conf, BatchSettings))
    return [load(each, options) for each in configuration.settings(conf, ChannelsSettings).uris]


def _bus(uris: Sequence[str], settings: BusSettings) -> Bus | None:
    """Returns the bus; None: that of the engine."""
    try:
        return load_bus(uris, settings) if uris else None
    except errors.BadConfiguration as error:
        raise errors.BadConfiguration(f"[channels] bus: {error}") from error


def _check_memory(bus: Sequence[str], namespaces: Namespaces) -> None:
    """Raises BadConfiguration when nodes would share a bus, but each had another history."""
    if namespaces.store_history and any(urlsplit(each).scheme != "memory" for each in bus):
        raise errors.BadConfiguration(
            "[channels] bus: with [storage] uri memory:// each worker has histories of its own; "
            "use a Redis, or set history_size to 0"
        )


def _engine(several: Sequence[str], uri: str, batch: BatchSettings, bus: Bus | None) -> Engine:
    """Returns the engine over *several* stores, or over that at *uri*."""
    if not several:
        if urlsplit(uri).scheme == "memory":
            return MemoryEngine(clock.process, bus)
        return RedisEngine([keyspace.client(uri, batch)], clock.store, bus)
    if any(urlsplit(each).scheme == "memory" for each in several):
        raise errors.BadConfiguration("[channels] uris: memory:// cannot be one of several stores")
    try:
        clients = [keyspace.client(each, batch) for each in several]
    except errors.BadConfiguration as error:
        raise errors.BadConfiguration(f"[channels] uris: {error}") from error
    return RedisEngine(clients, clock.store, bus)


def lacks_charts(conf: cfg.ConfigOpts) -> bool:
    """Returns whether there is a console, but not what draws its charts."""
    return configuration.settings(conf, ConsoleSettings).enabled and not has_charts()


def console(conf: cfg.ConfigOpts) -> ConsoleSettings | None:
    """Returns the settings of the console; None: there is none."""
    given = configuration.settings(conf, ConsoleSettings)
    if not given.enabled:
        return None
    strategies = configuration.settings(conf, AuthSettings).strategy
    shared = configuration.settings(conf, ChannelsSettings)
    key = configuration.settings(conf, ApiKeySettings)
    provider = seal = None
    if given.client_id and "jwt" in strategies:
        issuer = configuration.settings(conf, JwtSettings).issuer
        provider = OpenIdClient(issuer, given.client_id)
    if "key" in strategies:
        seal = SecretSeal(configuration.settings(conf, AccessKeySettings))
    return msgspec.structs.replace(
        given,
        # Workers inherit a random one from the parent process; nodes on other machines have others.
        secret=tickets.secret(key.key) if key.key else secrets.token_bytes(32),
        api_key=key,
        allowed_origins=shared.allowed_origins,
        project=shared.project,
        strategies=strategies,
        provider=provider,
        seal=seal,
    )


def tracing(conf: cfg.ConfigOpts) -> Callable[[], RequestTracing] | None:
    """Returns a factory for each worker; None: there are no spans.  Raises BadConfiguration."""
    return load_tracing(configuration.settings(conf, TracingSettings))


def settings(conf: cfg.ConfigOpts) -> ApiSettings:
    of = partial(configuration.settings, conf)
    return msgspec.structs.replace(
        of(ApiSettings),
        limits=of(rules.Limits),
        quota=of(QuotaSettings),
        websocket=of(WebSocketSettings),
        metrics=of(QueueMetricsSettings) if of(MetricsSettings).port else None,
        history=of(HistorySettings),
        notifier=of(NotifierSettings),
        webhooks=of(HttpSettings),
        mail=of(MailSettings),
    )
