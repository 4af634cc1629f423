# SPDX-License-Identifier: Apache-2.0
"""Which service or store a command talks to, and what says so.

The first of these that names one decides, alone: an option of the command line, a
variable of the environment, the profile in use, the configuration at its standard
places.  Without any it is the service of this machine; never a store that is made for it.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from zaqar_redis import conf as configuration
from zaqar_redis import errors
from zaqar_redis.cli import profile_file
from zaqar_redis.keyspace import embedded
from zaqar_redis.keyspace.client import printable

#: Variables of the environment: the address of a service, and its store.
URL, URI = "ZAQAR_REDIS_URL", "ZAQAR_REDIS_URI"
_BY_DEFAULT = "the default"


@dataclass(frozen=True)
class CommandTarget:
    """The service at *url*; or, if that is empty, the store at *uri*."""

    #: what says so, for people
    by: str
    url: str = ""
    uri: str = ""
    #: whether it is on the command line as it is
    typed: bool = False

    def __str__(self) -> str:
        what = f"the service {printable(self.url)}" if self.url else f"the store {self.store}"
        return f"{what} ({self.by})"

    @property
    def store(self) -> str:
        """Its URI for people: without a password, and with the folder of a private one."""
        if urlsplit(self.uri).scheme == "embedded":
            return f"embedded://{embedded.Place(self.uri).folder}"
        return printable(self.uri)

    @property
    def assumed(self) -> bool:
        """Whether nobody has named one."""
        return self.by == _BY_DEFAULT


def find(parsed: argparse.Namespace, *, store_only: bool = False) -> CommandTarget:
    """What the command line, the environment, profiles and configuration say.

    With *store_only* a service will not do.  Raises BadConfiguration when there is none.
    """
    found = next(_named(vars(parsed)), None) or _assumed(vars(parsed))
    if not store_only:
        return found
    if not found.uri:
        raise errors.BadConfiguration(
            f"this command works at a store, and {found.by} names a service only; {store_advice()}"
        )
    if found.assumed and not embedded.is_running(found.uri):
        raise errors.BadConfiguration(
            f"no store is named, and no service uses {found.store}; {store_advice()}"
        )
    return replace(found, url="")


def advice() -> str:
    """What to do when no service is where it was looked for."""
    return (
        "start one with `zaqar-redis serve`, or name another with --url, --storage, "
        f"{URL}, {URI} or a profile (`zaqar-redis profile create`)"
    )


def store_advice() -> str:
    return f"name it with --storage, {URI} or a profile (`zaqar-redis profile create`)"


def service_url(text: str) -> str:
    """The address of a service, below which is ``/v2``; it may end so.

    Raises ArgumentTypeError.
    """
    try:
        parts = urlsplit(text.strip())
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # e.g. a port that is no number
        fits = False
    if not fits or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError(
            f"{printable(text)}: it must be like http://127.0.0.1:8888"
        )
    path = parts.path.rstrip("/").removesuffix("/v2").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _named(given: Mapping[str, Any]) -> Iterator[CommandTarget]:
    """Those that somebody has named, the first one that counts first."""
    if url := given.get("url"):
        yield CommandTarget("--url", url=url, typed=True)
    if uri := given.get("storage"):
        yield CommandTarget("--storage", uri=uri, typed=True)
    if name := given.get("profile"):
        yield _of_profile(name, profile_file.load())
    files = given.get("config_file")
    if files:
        yield from _of_configuration(files)
    yield from _of_environment()
    profiles = profile_file.load()
    if profiles.in_use:
        yield _of_profile(profiles.in_use, profiles)
    if not files:
        yield from _of_configuration(None)


def _of_profile(name: str, profiles: profile_file.Profiles) -> CommandTarget:
    profile, by = profiles.named(name), f"profile {name}"
    return CommandTarget(by, url=_checked(profile.url, by), uri=profile.uri)


def _of_environment() -> Iterator[CommandTarget]:
    url, uri = os.environ.get(URL, ""), os.environ.get(URI, "")
    names = [name for name, value in ((URL, url), (URI, uri)) if value]
    if names:
        yield CommandTarget(", ".join(names), url=_checked(url, URL), uri=uri)


def _checked(url: str, by: str) -> str:
    try:
        return service_url(url) if url else ""
    except argparse.ArgumentTypeError as error:
        raise errors.BadConfiguration(f"{by}: {error}") from error


def _of_configuration(files: list[str] | None) -> Iterator[CommandTarget]:
    conf = configuration.load([], files)
    if by := configuration.origin(conf, "storage", "uri"):
        yield CommandTarget(by, uri=conf.storage.uri)


def _assumed(given: Mapping[str, Any]) -> CommandTarget:
    """The service of this machine, as the configuration has it."""
    conf = configuration.load([], given.get("config_file"))
    listen = conf["drivers:transport:wsgi"]
    url = f"http://{_here(listen.bind)}:{listen.port}"
    return CommandTarget(_BY_DEFAULT, url=url, uri=conf.storage.uri)


def _here(bind: str) -> str:
    """The host of a URL for what listens there; who listens everywhere does so here too."""
    try:
        address = ipaddress.ip_address(bind)
    except ValueError:
        return bind
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return bind if address.version == 4 else f"[{bind}]"
