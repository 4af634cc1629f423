# SPDX-License-Identifier: Apache-2.0
"""``/console/``: a web page for operators, which uses the public endpoints.

The page is files in this folder; its charts are drawn by uPlot, which tools/console-assets puts
into the folder vendor.
"""

from __future__ import annotations

import asyncio
import hashlib
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from zaqar_redis import errors, rules
from zaqar_redis.api.api_key import ApiKeyChecks
from zaqar_redis.api.console import channels, keys, overview, queues
from zaqar_redis.api.console.answers import answer
from zaqar_redis.api.console.settings import ConsoleSettings
from zaqar_redis.api.exchange import Answer, Request
from zaqar_redis.api.origins import AllowedOrigins
from zaqar_redis.api.routes import ApiRoute
from zaqar_redis.auth.access import Access
from zaqar_redis.auth.identity import NONE
from zaqar_redis.realtime.session.namespaces import Namespaces
from zaqar_redis.service.overview import OperatorServices

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
_ROOT = Path(__file__).parent
#: What draws the charts; tools/console-assets puts it there.
_VENDOR, _CHARTS = _ROOT / "vendor", "uPlot.iife.min.js"

#: Calls below the page that a service without channels does not have.
_OF_CHANNELS = ("channels", "connections", "namespace")
#: Strategies whose credentials the page can ask for.
_ASKED = ("key", "jwt", "keystone")


def _logins(settings: ConsoleSettings) -> list[str]:
    """Returns the kinds of credentials that both /v2 and /api accept; "free": none is needed."""
    if NONE in settings.strategies:
        if settings.api_key.insecure:
            return ["free"]
        return ["api_key"] if settings.api_key.key else []
    at_provider = ["openid"] if settings.provider is not None else []
    return at_provider + [name for name in _ASKED if name in settings.strategies]


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
    def __init__(self, settings: ConsoleSettings, checks: ApiKeyChecks, *, channels: bool) -> None:
        """*channels*: whether the service has any."""
        self._checks = checks
        self._files = _files()
        self._about = answer(
            {
                "logins": _logins(settings),
                "openid": settings.provider,
                "charts": _CHARTS in self._files,
                "channels": channels,
            }
        )
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
        if file is None and name in _OF_CHANNELS:
            raise errors.NotFound(why=f"{name} needs the option [channels] enabled.")
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
        return answer(
            {
                "user": identity.user,
                "project": request.project,
                "roles": sorted(identity.roles),
                # rules of the policy that allow it for something in the project
                "may": self._checks.allowed(request),
            }
        )


def routes(
    settings: ConsoleSettings,
    access: Access,
    services: OperatorServices,
    limits: rules.Limits,
    namespaces: Namespaces | None,
) -> list[ApiRoute]:
    """*namespaces*: of channels; None: the service has no channels."""
    origins = AllowedOrigins(settings.allowed_origins)
    checks = ApiKeyChecks(settings.api_key, origins, access, settings.project)
    handlers = ConsoleHandlers(settings, checks, channels=namespaces is not None)
    read = partial(ApiRoute, "GET", action="console:read", public=True, checked=False)
    pages = [
        read("/console", handlers.redirect),
        read("/console/", handlers.get_file),
        read("/console/{name}", handlers.get_file),
    ]
    found = [
        *pages,
        *(replace(page, method="HEAD") for page in pages),  # the framework leaves the body out
        read("/console/about", handlers.about),
        checks.route("GET", "/console/session", handlers.show_session, "console:session"),
        *overview.routes(services, checks),
        *queues.routes(services, checks, limits),
    ]
    if services.access_keys is not None:
        found += keys.routes(services.access_keys, checks, settings.seal)
    if services.nodes is not None and namespaces is not None:
        found += channels.routes(services.nodes, checks, namespaces, settings.secret)
    return found
