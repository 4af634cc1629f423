# SPDX-License-Identifier: Apache-2.0
"""From options to the parts of the service."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

from oslo_config import cfg

from zaqar_redis import clock, errors
from zaqar_redis.api.app import Settings
from zaqar_redis.api.channels import Channels, console
from zaqar_redis.api.channels import Settings as ChannelSettings
from zaqar_redis.api.channels import server as server_api
from zaqar_redis.auth import keys, tickets
from zaqar_redis.conf import channels as of_channels
from zaqar_redis.conf import redis, server, transport
from zaqar_redis.keyspace import client as keyspace
from zaqar_redis.keyspace import embedded
from zaqar_redis.realtime.engine import Engine
from zaqar_redis.realtime.engines.memory import MemoryEngine
from zaqar_redis.realtime.engines.redis import RedisEngine
from zaqar_redis.realtime.engines.sharded import ShardedEngine
from zaqar_redis.realtime.queues import Queues
from zaqar_redis.storage import pooled
from zaqar_redis.storage.driver import Driver
from zaqar_redis.storage.load import can_control, load


def problems(conf: cfg.ConfigOpts) -> list[str]:
    """Why no service can start with these options, a line for each.

    What is wrong with one alone, `zaqar_redis.conf.problems` says.
    """
    found: list[str] = []
    for part in (_server, _store, _channels):
        try:
            part(conf)
        except cfg.Error:
            continue  # a value of no use
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
    """That of the store, as it will be when it runs."""
    uri: str = conf.storage.uri
    try:
        return embedded.Place(uri).uri if urlsplit(uri).scheme == "embedded" else uri
    except ValueError as error:  # e.g. a bracket that is never closed
        raise errors.BadConfiguration(f"[storage] uri: {error}") from error


def driver(conf: cfg.ConfigOpts, uri: str) -> Callable[[], Driver]:
    """What makes a driver for the store at *uri* and, unless they are off, its pools."""
    options = redis.options(conf)
    control = conf.storage.control_uri or uri
    # Another driver's store may have no room for pools; it works without.
    if not conf.pooling or not (conf.storage.control_uri or can_control(uri)):
        return lambda: load(uri, options)
    return lambda: pooled.create(uri, control, options)


def channels(
    conf: cfg.ConfigOpts, uri: str, *, of_command: bool = False
) -> Callable[[Queues], Channels | None]:
    """What makes the channels, beside the store at *uri* unless they have their own, if there
    are to be any; those *of_command* serve nobody but it.

    Raises BadConfiguration when theirs, or one of their options, cannot be used.
    """
    # Another driver's store may be no Redis at all; queues work without channels.
    if not (conf.channels.enabled and (conf.channels.uris or can_control(uri))):
        return lambda queues: None
    verifier = of_channels.verifier(conf)
    if found := keys.problems(verifier):
        raise errors.BadConfiguration("\n".join(found))
    given = ChannelSettings(
        namespaces=of_channels.namespaces(conf),
        tokens=verifier,
        session=of_channels.settings(conf),
        allowed_origins=tuple(conf.channels.allowed_origins),
        project=conf.channels.project,
        server=server_api.Settings(
            key=conf.channels.api_key or "", insecure=conf.channels.api_insecure or of_command
        ),
        console=_console(conf) if conf.channels.console and not of_command else None,
        serves=not of_command,
    )
    _engine(conf, uri)  # a URI that cannot be used is told before any worker starts
    return lambda queues: Channels(_engine(conf, uri), given, queues)


def _engine(conf: cfg.ConfigOpts, uri: str) -> Engine:
    batch = keyspace.settings(redis.options(conf))
    several = conf.channels.uris
    if not several:
        if urlsplit(uri).scheme == "memory":
            return MemoryEngine(clock.process)
        return RedisEngine(keyspace.client(uri, batch), clock.store)
    if any(urlsplit(each).scheme == "memory" for each in several):
        raise errors.BadConfiguration("[channels] uris: memory:// is not for several stores")
    try:
        clients = [keyspace.client(each, batch) for each in several]
    except errors.BadConfiguration as error:
        raise errors.BadConfiguration(f"[channels] uris: {error}") from error
    return ShardedEngine([RedisEngine(client, clock.store) for client in clients])


def _console(conf: cfg.ConfigOpts) -> console.Settings:
    key, insecure = conf.channels.api_key, conf.channels.api_insecure
    secret = tickets.secret(key) if key else b""
    if insecure and not key:
        # Workers get it from the process that starts them; other nodes have others.
        secret = secrets.token_bytes(32)
    return console.Settings(secret=secret, guarded=not insecure)


def settings(conf: cfg.ConfigOpts) -> Settings:
    return Settings(
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
