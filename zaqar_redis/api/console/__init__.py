# SPDX-License-Identifier: Apache-2.0
"""``/console/``: a web page for operators, which uses the public endpoints.

The page is files in this folder; its charts are drawn by uPlot, which tools/console-assets puts
into the folder vendor.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from zaqar_redis import errors
from zaqar_redis.api.bodies import Body
from zaqar_redis.api.channels.server import ServerApiChecks
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.auth import tickets
from zaqar_redis.auth.access_keys import SecretSeal
from zaqar_redis.auth.identity import NONE
from zaqar_redis.realtime.protocol.codes import CommandRejected
from zaqar_redis.realtime.session.namespaces import Namespaces
from zaqar_redis.service.channels import resource

_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css",
}
#: Nothing from other origins, and nothing inline.
_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src {origins}; img-src data:; "
    "style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    ("cache-control", "no-cache"),  # cached, but validated at each use
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
)
_NOT_STORED = (("cache-control", "no-store"),)
_ROOT = Path(__file__).parent
#: What draws the charts; tools/console-assets puts it there.
_VENDOR, _CHARTS = _ROOT / "vendor", "uPlot.iife.min.js"

#: Strategies whose credentials the page can ask for.
_ASKED = ("key", "jwt", "keystone")


class OpenIdClient(Struct, frozen=True):
    """The console at an OpenID provider."""

    issuer: str
    client_id: str


class ConsoleSettings(Struct, frozen=True):
    #: signs tickets
    secret: bytes
    #: False: /api is open to everybody
    guarded: bool = True
    #: whether /api accepts a key
    has_key: bool = True
    #: of the service, by name
    strategies: tuple[str, ...] = (NONE,)
    #: None: the page asks for a token instead
    provider: OpenIdClient | None = None
    #: makes secrets of access keys; None: the service has no such keys
    seal: SecretSeal | None = None


def _logins(settings: ConsoleSettings) -> list[str]:
    """Returns the kinds of credentials that both /v2 and /api accept; "free": none is needed."""
    if NONE in settings.strategies:
        if not settings.guarded:
            return ["free"]
        return ["api_key"] if settings.has_key else []
    at_provider = ["openid"] if settings.provider is not None else []
    return at_provider + [name for name in _ASKED if name in settings.strategies]


class _SessionOut(Struct, frozen=True):
    """Who has signed in, and what they may do in the project."""

    user: str
    project: str
    roles: list[str]
    #: rules of the policy that allow it for something in the project
    may: list[str]


class _TicketRequest(Struct):
    channel: str


class StaticFile:
    """A file of the page, read at its first request."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.media_type = _MEDIA_TYPES[path.suffix]

    @cached_property
    def content(self) -> bytes:
        return self._path.read_bytes()

    @cached_property
    def etag(self) -> str:
        return hashlib.blake2b(self.content, digest_size=16).hexdigest()


def has_charts() -> bool:
    """Returns whether what draws charts is installed."""
    return (_VENDOR / _CHARTS).is_file()


def _files() -> dict[str, StaticFile]:
    folders = (_ROOT, _VENDOR)
    paths = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return {path.name: StaticFile(path) for path in paths if path.suffix in _MEDIA_TYPES}


class ConsoleHandlers:
    def __init__(
        self, settings: ConsoleSettings, checks: ServerApiChecks, namespaces: Namespaces
    ) -> None:
        self._secret = settings.secret
        self._checks = checks
        self._namespaces = namespaces
        self._files = _files()
        about = {
            "logins": _logins(settings),
            "openid": settings.provider,
            "charts": _CHARTS in self._files,
        }
        self._about = Answer(msgspec.json.encode(about), headers=_NOT_STORED)
        origins = "'self'"
        if settings.provider is not None:
            scheme, host = urlsplit(settings.provider.issuer)[:2]
            origins += f" {scheme}://{host}"
        policy = _POLICY.format(origins=origins)
        self._headers = (*_HEADERS, ("content-security-policy", policy))

    async def redirect(self, request: Request[None, None]) -> Answer:
        """The page, with the slash that relative names in it need."""
        return Answer(status=308, headers=(("location", "/console/"),))

    async def get_file(self, request: Request[None, None], name: str = "index.html") -> Answer:
        """A file of the page."""
        file = self._files.get(name)
        if file is None:
            raise errors.NotFound(why=f"The console has no file {name}.")
        # A thread reads it, and other requests go on.
        etag = await asyncio.to_thread(lambda: file.etag)
        headers = (*self._headers, ("etag", f'"{etag}"'))
        known = request.header(b"if-none-match") or ""
        if known == "*" or etag in known:
            return Answer(status=304, headers=headers)
        return Answer(file.content, headers=headers, media_type=file.media_type)

    async def about(self, request: Request[None, None]) -> Answer:
        """What the page needs to know before anybody has signed in."""
        return self._about

    async def show_session(self, request: Request[None, None]) -> Answer:
        """Who has signed in."""
        self._checks.authorize(request, "console:session", "")

        identity = request.identity
        session = _SessionOut(
            user=identity.user,
            project=request.project,
            roles=sorted(identity.roles),
            may=self._checks.allowed(request),
        )
        return Answer(msgspec.json.encode(session), headers=_NOT_STORED)

    async def issue_ticket(self, request: Request[None, _TicketRequest]) -> Answer:
        """A token for the live tail of one channel."""
        channel = request.document.channel
        try:
            self._namespaces.options(channel)
        except CommandRejected as refused:
            raise errors.BadRequest(why=refused.error.message) from refused
        self._checks.authorize(request, "console:ticket", resource(channel))
        token = tickets.issue(self._secret, request.project, channel, time.time())
        return Answer(msgspec.json.encode({"token": token}), headers=_NOT_STORED)


def routes(
    settings: ConsoleSettings, checks: ServerApiChecks, namespaces: Namespaces
) -> list[ApiRoute]:
    handlers = ConsoleHandlers(settings, checks, namespaces)
    row = partial(ApiRoute, public=True, checked=False)
    read = partial(row, "GET", action="console:read")
    guarded = partial(row, guard=checks.admit)
    ticket = Body(_TicketRequest, "A ticket")
    return [
        read("/console", handlers.redirect),
        read("/console/", handlers.get_file),
        read("/console/{name}", handlers.get_file),
        read("/console/about", handlers.about),
        guarded("GET", "/console/session", handlers.show_session, "console:session"),
        guarded("POST", "/console/token", handlers.issue_ticket, "console:ticket", body=ticket),
    ]
