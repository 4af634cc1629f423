# SPDX-License-Identifier: Apache-2.0
"""The target of a command: a service or a store, and where that is configured.

The first of these that names a target decides, alone: an option of the command line, a
variable of the environment, the profile in use, the configuration at its standard paths.
Without any it is the service of this machine; never a store created for the command.

The configuration is imported only when it decides: that takes longer than most commands.
"""

from __future__ import annotations

import argparse
import enum
import ipaddress
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from zaqar_redis import errors
from zaqar_redis.cli import profile_file
from zaqar_redis.keyspace.uris import redact_password

#: Variables of the environment: the address of a service, and its store.
URL_VARIABLE, URI_VARIABLE = "ZAQAR_REDIS_URL", "ZAQAR_REDIS_URI"
_BY_DEFAULT = "the default"


@dataclass(frozen=True)
class CommandTarget:
    """The service at *url*; or, if that is empty, the store at *uri*."""

    #: the option, variable, profile or file that names it, for messages
    origin: str
    url: str = ""
    uri: str = ""
    #: whether the command line has the URL or URI itself
    is_explicit: bool = False

    def __str__(self) -> str:
        what = f"the service {redact_password(self.url)}" if self.url else f"the store {self.store}"
        return f"{what} ({self.origin})"

    @property
    def store(self) -> str:
        """The store's URI for messages: without a password, with an embedded one's folder."""
        if urlsplit(self.uri).scheme == "embedded":
            from zaqar_redis.keyspace import embedded

            return f"embedded://{embedded.DataDirectory(self.uri).folder}"
        return redact_password(self.uri)

    @property
    def is_default(self) -> bool:
        """Whether no option, variable, profile or file names a target."""
        return self.origin == _BY_DEFAULT


def resolve(parsed: argparse.Namespace, *, store_only: bool = False) -> CommandTarget:
    """Returns the target by command line, environment, profiles and configuration.

    With *store_only* it must have a store.  Raises BadConfiguration when there is none.
    """
    found = next(_named_targets(vars(parsed)), None) or _default_target(vars(parsed))
    if not store_only:
        return found
    if not found.uri:
        raise errors.BadConfiguration(
            f"this command works on a store, but {found.origin} names only a service; "
            f"{store_advice()}"
        )
    if found.is_default and not _is_running(found.uri):
        raise errors.BadConfiguration(
            f"no store is named, and no service uses {found.store}; {store_advice()}"
        )
    return replace(found, url="")


def advice() -> str:
    """Returns what to do when no service answers at the default address."""
    return (
        "start one with `zaqar-redis serve`, or name another with --url, --storage, "
        f"{URL_VARIABLE}, {URI_VARIABLE} or a profile (`zaqar-redis profile create`)"
    )


def store_advice() -> str:
    return f"name it with --storage, {URI_VARIABLE} or a profile (`zaqar-redis profile create`)"


def service_url(text: str) -> str:
    """Parses the URL of a service; returns it without a trailing ``/v2``.

    Raises ArgumentTypeError.
    """
    try:
        parts = urlsplit(text.strip())
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # e.g. a port that is no number
        fits = False
    if not fits or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError(
            f"{redact_password(text)}: it must be like http://127.0.0.1:8888"
        )
    path = parts.path.rstrip("/").removesuffix("/v2").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _named_targets(given: Mapping[str, Any]) -> Iterator[CommandTarget]:
    """Yields the targets that are named, in the order of precedence."""
    if url := given.get("url"):
        yield CommandTarget("--url", url=url, is_explicit=True)
    if uri := given.get("storage"):
        yield CommandTarget("--storage", uri=uri, is_explicit=True)
    if name := given.get("profile"):
        yield _from_profile(name, profile_file.load())
    files = given.get("config_file")
    if files:
        yield from _from_configuration(files)
    yield from _from_environment()
    profiles = profile_file.load()
    if profiles.in_use:
        yield _from_profile(profiles.in_use, profiles)
    if not files:
        yield from _from_configuration(None)


def _from_profile(name: str, profiles: profile_file.Profiles) -> CommandTarget:
    profile, origin = profiles.lookup(name), f"profile {name}"
    return CommandTarget(origin, url=_checked_url(profile.url, origin), uri=profile.uri)


def _from_environment() -> Iterator[CommandTarget]:
    url, uri = os.environ.get(URL_VARIABLE, ""), os.environ.get(URI_VARIABLE, "")
    names = [name for name, value in ((URL_VARIABLE, url), (URI_VARIABLE, uri)) if value]
    if names:
        yield CommandTarget(", ".join(names), url=_checked_url(url, URL_VARIABLE), uri=uri)


def _checked_url(url: str, origin: str) -> str:
    try:
        return service_url(url) if url else ""
    except argparse.ArgumentTypeError as error:
        raise errors.BadConfiguration(f"{origin}: {error}") from error


def _is_running(uri: str) -> bool:
    from zaqar_redis.keyspace import embedded

    return embedded.is_running(uri)


def _from_configuration(files: list[str] | None) -> Iterator[CommandTarget]:
    from zaqar_redis import conf as configuration
    from zaqar_redis.conf.groups import StorageSettings

    conf = configuration.load([], files)
    if origin := configuration.origin(conf, "storage", "uri"):
        yield CommandTarget(origin, uri=configuration.settings(conf, StorageSettings).uri)


def _default_target(given: Mapping[str, Any]) -> CommandTarget:
    """Returns the service of this machine, at the configured address."""
    from zaqar_redis import conf as configuration
    from zaqar_redis.conf.groups import ListenSettings, SslSettings, StorageSettings

    conf = configuration.load([], given.get("config_file"))
    listen = configuration.settings(conf, ListenSettings)
    scheme = "https" if configuration.settings(conf, SslSettings).cert_file else "http"
    url = f"{scheme}://{_connect_host(listen.bind)}:{listen.port}"
    uri = configuration.settings(conf, StorageSettings).uri
    return CommandTarget(_BY_DEFAULT, url=url, uri=uri)


def _connect_host(bind: str) -> str:
    """Returns the URL's host for a listening address; loopback for an unspecified one."""
    try:
        address = ipaddress.ip_address(bind)
    except ValueError:
        return bind
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return bind if address.version == 4 else f"[{bind}]"


def quiet_logging(channels: bool = False) -> None:
    for logger_name in ("httpx", "httpcore", "zaqar_redis"):  # a command prints its result, no log
        logging.getLogger(logger_name).setLevel(logging.WARNING)
    if channels:  # the command itself reports an unreachable store, once
        for module in ("batch", "outages"):
            logging.getLogger(f"zaqar_redis.keyspace.{module}").setLevel(logging.ERROR)


class Needs(enum.Enum):
    """What a command needs of the service."""

    QUEUES = enum.auto()
    CHANNELS = enum.auto()
    #: channels, and the service's options for them
    NAMESPACES = enum.auto()
