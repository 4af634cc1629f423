# SPDX-License-Identifier: Apache-2.0
"""``/console/``: a web page for operators, which uses the public endpoints.

The page is files in this folder; charts are drawn by plotly.js, out of the Python package
plotly, if that is installed.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import time
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from zaqar_redis import errors
from zaqar_redis.api.channels.server import ServerApiChecks
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.routes import ApiRoute, Body
from zaqar_redis.auth import tickets
from zaqar_redis.auth.identity import NONE
from zaqar_redis.realtime.protocol.codes import CommandRejected
from zaqar_redis.realtime.session.namespaces import Namespaces
from zaqar_redis.service.channels import resource

_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css",
}
#: Nothing from other origins and no inline scripts.  The one inline style that is allowed is an
#: empty one (its digest), to which plotly adds rules.
_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src {origins}; img-src data:; "
    "style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    ("cache-control", "no-cache"),  # cached, but validated at each use
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
)
_NOT_STORED = (("cache-control", "no-store"),)
_CHARTS = "plotly.min.js"


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
    may_post: bool
    may_publish: bool


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


def _files() -> dict[str, StaticFile]:
    root = Path(__file__).parent
    found = {path.name: StaticFile(path) for path in root.iterdir() if path.suffix in _MEDIA_TYPES}
    package = importlib.util.find_spec("plotly")  # found, not imported: that takes long
    for folder in (package and package.submodule_search_locations) or ():
        charts = Path(folder) / "package_data" / _CHARTS
        if charts.is_file():
            found[_CHARTS] = StaticFile(charts)
    return found


class ConsoleHandlers:
    def __init__(
        self,
        settings: ConsoleSettings,
        checks: ServerApiChecks,
        namespaces: Namespaces,
        project: str,
    ) -> None:
        self._secret = settings.secret
        self._checks = checks
        self._namespaces = namespaces
        self._files = _files()
        about = {
            "logins": _logins(settings),
            "openid": settings.provider,
            "project": project,
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
        # The charts are megabytes: a thread reads them, and other requests go on.
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

        def may(action: str) -> bool:
            try:
                self._checks.authorize(request, action, None)
            except errors.Forbidden:
                return False
            return True

        identity = request.identity
        session = _SessionOut(
            user=identity.user,
            project=request.project,
            roles=sorted(identity.roles),
            may_post=may("messages:create"),
            may_publish=may("channels:publish"),
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
    settings: ConsoleSettings, checks: ServerApiChecks, namespaces: Namespaces, project: str
) -> list[ApiRoute]:
    handlers = ConsoleHandlers(settings, checks, namespaces, project)
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
