# SPDX-License-Identifier: Apache-2.0
"""Validation of Keystone's tokens by keystonemiddleware, in the calling thread.

Only the strategy ``keystone`` imports this module: it needs the extra ``keystone``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from time import monotonic
from typing import Any

from keystoneauth1 import exceptions as keystoneauth_errors
from keystoneauth1 import loading
from keystonemiddleware import auth_token
from keystonemiddleware import exceptions as middleware_errors
from oslo_config import cfg

from zaqar_redis import errors
from zaqar_redis.auth.identity import ADMIN, Identity

LOG = logging.getLogger(__name__)

GROUP = "keystone_authtoken"
#: Where the middleware finds our cache in a WSGI environment.
_CACHE = "zaqar_redis.token_cache"
#: Tokens in that cache, of about 2 KB each.
_TOKENS_MAX = 8192
#: Seconds for one response of Keystone, and how often it is asked again, unless options say
#: otherwise; the middleware's own defaults are to wait for ever, and three times.
_HTTP_TIMEOUT, _HTTP_RETRIES = 5, 1
#: Seconds for which an identity is sure, at most: a revoked token may not live longer here than
#: in the middleware's cache.
_SURE_SECONDS = 5.0
#: What the middleware must have of a request; none of it comes from a client.
_ENVIRONMENT = {
    "REQUEST_METHOD": "GET",
    "SCRIPT_NAME": "",
    "PATH_INFO": "/",
    "SERVER_NAME": "zaqar-redis",
    "SERVER_PORT": "80",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "wsgi.url_scheme": "http",
}
#: They log each request that they cannot serve; `KeystoneHealth` logs the first.
_LOGGERS = ("keystonemiddleware", "keystoneauth")


def options(conf: cfg.ConfigOpts) -> dict[str, list[cfg.Opt]]:
    """Returns keystonemiddleware's options by group, with those of the ``auth_type`` in *conf*.

    Raises BadConfiguration when there is no such type.
    """
    found: dict[str, list[cfg.Opt]] = dict(auth_token.list_opts())
    conf.register_opts(found[GROUP], group=GROUP)
    conf.set_default("http_connect_timeout", _HTTP_TIMEOUT, group=GROUP)
    conf.set_default("http_request_max_retries", _HTTP_RETRIES, group=GROUP)
    section = conf[GROUP].auth_section or GROUP
    if section != GROUP:
        found[section] = loading.get_auth_common_conf_options()
        conf.register_opts(found[section], group=section)
    name = conf[section].auth_type
    if not name:
        raise errors.BadConfiguration(
            f"[{section}] auth_type: the strategy keystone needs it, e.g. password, and the "
            "credentials of a service user"
        )
    try:
        plugin: Any = loading.get_plugin_loader(name)
    except keystoneauth_errors.NoMatchingPlugin as error:
        raise errors.BadConfiguration(f"[{section}] auth_type: {error}") from error
    found[section] = found[section] + loading.get_auth_plugin_conf_options(plugin)
    return found


def limit_logs(level: int) -> None:
    """Leaves out the libraries' lines below *level*, unless the service logs everything."""
    if logging.getLogger().isEnabledFor(logging.DEBUG):
        level = logging.NOTSET
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(level)


class KeystoneHealth:
    """Whether tokens can be validated.  A change is logged, once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_lost = False

    def lost(self, why: str) -> None:
        if self._changes(is_lost=True):
            LOG.warning("tokens cannot be validated: %s", why, extra={"action": "keystone_lost"})

    def back(self) -> None:
        if self._changes(is_lost=False):
            LOG.info("tokens can be validated again", extra={"action": "keystone_back"})

    def _changes(self, *, is_lost: bool) -> bool:
        with self._lock:
            before, self._is_lost = self._is_lost, is_lost
        return before != is_lost


class MemoryTokenCache:
    """Keystone's responses by token, shared by all threads.

    It has what the middleware uses of a client of memcached.  The middleware's own cache in memory
    has no bound, and goes through all its tokens to find one.
    """

    def __init__(self) -> None:
        self._values: dict[str, tuple[bytes, float]] = {}

    def get(self, key: str) -> bytes | None:
        value, expires_at = self._values.get(key, (None, 0.0))
        return value if expires_at > monotonic() else None

    def set(self, key: str, value: bytes, time: int) -> None:
        """*time*: seconds to keep it; less than 1: it is not kept."""
        if len(self._values) >= _TOKENS_MAX:
            self._values.clear()
        self._values[key] = value, monotonic() + time


class _AuthToken(auth_token.AuthProtocol):  # type: ignore[misc]  # it is untyped
    """keystonemiddleware, which notes in `question` how its question to Keystone ended."""

    def __init__(self, app: Any, conf: dict[str, Any]) -> None:
        self.question = threading.local()
        super().__init__(app, conf)

    def _create_identity_server(self) -> Any:
        server = super()._create_identity_server()
        verify = server.verify_token

        def verify_token(*arguments: Any, **named: Any) -> Any:
            self.question.was_asked = True
            try:
                return verify(*arguments, **named)
            except Exception as error:
                self.question.failure = error
                raise

        server.verify_token = verify_token
        return server

    def validate_allowed_request(self, request: Any, token: dict[str, Any]) -> None:
        # They allow methods and paths, and an identity is kept for all requests with its token.
        restricted = token.get("application_credential", {}).get("access_rules") is not None
        # Keystone: with a service token it is no request of the user, and the rules do not apply.
        if restricted and not request.service_token:
            raise errors.Forbidden(
                why="Application credentials with access rules are not supported; create one "
                "without them."
            )


class TokenValidator:
    """Finds out whose token it is.  Threads may share it."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """*conf*: with the `options`.  Raises BadConfiguration."""
        limit_logs(logging.WARNING)  # which are about options
        self.health = KeystoneHealth()
        own = conf[GROUP]
        #: seconds that a request waits for its token
        self.timeout = float(own.http_connect_timeout * (1 + own.http_request_max_retries))
        overrides: dict[str, Any] = {"delay_auth_decision": False}
        self._environment: dict[str, Any] = dict(_ENVIRONMENT)
        if not conf[GROUP].memcached_servers:
            # Nobody shares this cache, and nothing here reads the catalogue.
            overrides |= {"cache": _CACHE, "include_service_catalog": False}
            self._environment[_CACHE] = MemoryTokenCache()
        try:
            self._middleware = _AuthToken(_hand_back, {"oslo_config_config": conf, **overrides})
            self.challenge = f'Keystone uri="{self._middleware.www_authenticate_uri}"'
        except (
            keystoneauth_errors.ClientException,
            middleware_errors.KeystoneMiddlewareException,
            cfg.Error,
            ValueError,
            OSError,
        ) as error:
            raise errors.BadConfiguration(f"[{GROUP}] {errors.reason(error)}") from error

    def validate(self, token: str, service_token: str | None = None) -> tuple[Identity, float]:
        """Returns whose token it is, and for how many seconds that is sure.

        *service_token*: that of a service which sends a user's request on, or None.
        Raises Unauthenticated, Forbidden for a token without a project, and Unavailable when
        nobody can tell.
        """
        environment = self._environment | {"HTTP_X_AUTH_TOKEN": token}
        if service_token is not None:
            environment["HTTP_X_SERVICE_TOKEN"] = service_token
        status = self._run(environment)
        if status == 401:
            raise errors.Unauthenticated(
                why="The token is not valid: it has expired, or was revoked, or is none of "
                "Keystone's.",
                challenge=self.challenge,
            )
        return _identity(environment["keystone.token_auth"])

    def _run(self, environment: dict[str, Any]) -> int:
        """Returns the status of the middleware's response: 200 or 401.  Raises Unavailable."""
        question, statuses = self._middleware.question, [500]

        def start_response(status: str, *_: object) -> None:
            statuses.append(int(status.split()[0]))

        question.was_asked, question.failure = False, None
        try:
            self._middleware(environment, start_response)
        except errors.Problem:
            raise
        except Exception as error:  # e.g. of a client of memcached: nobody gets in by it
            question.failure = error
        if statuses[-1] in (200, 401):
            if question.was_asked:
                self.health.back()
            return statuses[-1]
        failure = question.failure
        self.health.lost(errors.reason(failure) if failure else f"status {statuses[-1]}")
        raise errors.Unavailable(why=UNAVAILABLE)


UNAVAILABLE = "Keystone cannot validate tokens at the moment. Please try again in a few seconds."


def _hand_back(environment: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Is the application behind the middleware: who asks it has a valid token."""
    start_response("200 OK", [])
    return []


def _identity(found: Any) -> tuple[Identity, float]:
    """*found*: the middleware's ``keystone.token_auth``."""
    user = found.user
    roles = frozenset(name.lower() for name in user.role_names)  # Keystone ignores their case
    # An administrator of the whole system names in each request the project that it is for.
    if not user.project_id and not (user.system_scoped and ADMIN in roles):
        raise errors.Forbidden(
            why="The token is not scoped to a project; ask Keystone for one that is. Only "
            "administrators of the system need no project."
        )
    identity = Identity(user.project_id or "", user.user_id, roles, strategy="keystone")
    now = time.time()
    # A service may send on a token that has expired since; its own has not.
    left = [each.expires.timestamp() - now for each in (user, found.service) if each]
    return identity, min(_SURE_SECONDS, *(seconds for seconds in left if seconds > 0))
