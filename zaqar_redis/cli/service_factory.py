# SPDX-License-Identifier: Apache-2.0
"""Factories: the parts of the service, built from options."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

from oslo_config import cfg

from zaqar_redis import clock, errors
from zaqar_redis.api.app import ApiSettings
from zaqar_redis.api.channels import ChannelsApp, ChannelSettings, console
from zaqar_redis.api.channels import server as server_api
from zaqar_redis.auth import key_checks, tickets
from zaqar_redis.conf import channels as channel_options
from zaqar_redis.conf import redis, server, transport
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import embedded
from zaqar_redis.realtime.engine import Engine
from zaqar_redis.realtime.engines.memory import MemoryEngine
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.engines.sharded import ShardedEngine
from zaqar_redis.realtime.node.queue_channels import QueueChannels
from zaqar_redis.storage import pools
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.load import can_control, load
from zaqar_redis.storage.pools.router import RetryPolicy


def problems(conf: cfg.ConfigOpts) -> list[str]:
    """Returns why no service can start with these options, a line for each reason.

    Invalid values of single options are left to `zaqar_redis.conf.problems`.
    """
    found: list[str] = []
    for part in (_server, _store, _channels):
        try:
            part(conf)
        except cfg.Error:
            continue  # an invalid value
        except errors.BadConfiguration as error:
            found += [line for line in str(error).splitlines() if line not in found]
    return found


def _server(conf: cfg.ConfigOpts) -> None:
    if found := server.problems(conf):
        raise errors.BadConfiguration("\n".join(found))


def _store(conf: cfg.ConfigOpts) -> None:
    uri = _uri(conf)
    if urlsplit(uri).scheme == "memory" and conf.server.workers > 1:
        raise errors.BadConfiguration("memory:// works with one worker only")
    driver(conf, uri)()


def _channels(conf: cfg.ConfigOpts) -> None:
    channels(conf, _uri(conf))


def _uri(conf: cfg.ConfigOpts) -> str:
    """Returns the store's URI; for an embedded one, that of its running server."""
    uri: str = conf.storage.uri
    try:
        return embedded.DataDirectory(uri).uri if urlsplit(uri).scheme == "embedded" else uri
    except ValueError as error:  # e.g. an unclosed bracket
        raise errors.BadConfiguration(f"[storage] uri: {error}") from error


def driver(conf: cfg.ConfigOpts, uri: str) -> Callable[[], Driver]:
    """Returns a factory of the driver for the store at *uri* and, unless off, its pools."""
    options = redis.options(conf)
    control = conf.storage.control_uri or uri
    # Another driver's store may not support pools; it works without.
    if not conf.pooling or not (conf.storage.control_uri or can_control(uri)):
        return lambda: load(uri, options)
    retry = RetryPolicy(move_timeout=conf.storage.move_timeout)
    return lambda: pools.create(uri, control, options, retry)


def channels(
    conf: cfg.ConfigOpts, uri: str, *, for_command: bool = False
) -> Callable[[QueueChannels], ChannelsApp | None]:
    """Returns a factory of the channels; it returns None when they are off.

    They use the store at *uri* unless they have their own.  Those *for_command* serve the
    command alone, and accept no clients.  Raises BadConfiguration for an unusable store or
    option.
    """
    # Another driver's store may not be a Redis; queues work without channels.
    if not (conf.channels.enabled and (conf.channels.uris or can_control(uri))):
        return lambda queues: None
    verifier = channel_options.token_settings(conf)
    if found := key_checks.problems(verifier):
        raise errors.BadConfiguration("\n".join(found))
    given = ChannelSettings(
        namespaces=channel_options.namespaces(conf),
        tokens=verifier,
        session=channel_options.settings(conf),
        allowed_origins=tuple(conf.channels.allowed_origins),
        project=conf.channels.project,
        server=server_api.ServerApiSettings(
            key=conf.channels.api_key or "", insecure=conf.channels.api_insecure or for_command
        ),
        console=_console(conf) if conf.channels.console and not for_command else None,
        accepts_clients=not for_command,
    )
    _engine(conf, uri)  # reports an unusable URI before any worker starts
    return lambda queues: ChannelsApp(_engine(conf, uri), given, queues)


def _engine(conf: cfg.ConfigOpts, uri: str) -> Engine:
    batch = keyspace.settings(redis.options(conf))
    several = conf.channels.uris
    if not several:
        if urlsplit(uri).scheme == "memory":
            return MemoryEngine(clock.process)
        return RedisEngine(keyspace.client(uri, batch), clock.store)
    if any(urlsplit(each).scheme == "memory" for each in several):
        raise errors.BadConfiguration("[channels] uris: memory:// cannot be one of several stores")
    try:
        clients = [keyspace.client(each, batch) for each in several]
    except errors.BadConfiguration as error:
        raise errors.BadConfiguration(f"[channels] uris: {error}") from error
    return ShardedEngine([RedisEngine(client, clock.store) for client in clients])


def _console(conf: cfg.ConfigOpts) -> console.ConsoleSettings:
    key, insecure = conf.channels.api_key, conf.channels.api_insecure
    secret = tickets.secret(key) if key else b""
    if insecure and not key:
        # Workers inherit it from the parent process; nodes on other machines have others.
        secret = secrets.token_bytes(32)
    return console.ConsoleSettings(secret=secret, guarded=not insecure)


def settings(conf: cfg.ConfigOpts) -> ApiSettings:
    return ApiSettings(
        limits=transport.limits(conf),
        admin_mode=conf.admin_mode,
        enable_checksum=conf.enable_checksum,
        signing_key=conf.signed_url.secret_key,
        encryption_key=conf.transport.message_encryption_key,
        max_waiting=conf.transport.max_waiting,
        sweep_interval=conf.storage.sweep_interval,
        max_connections=conf.server.max_connections,
        request_timeout=conf.server.request_timeout,
    )
