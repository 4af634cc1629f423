# SPDX-License-Identifier: Apache-2.0
"""Trusts of Keystone, by which the service acts for a user later; in the calling thread.

Only the strategy ``keystone`` imports this module: it needs the extra ``keystone``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from keystoneauth1 import exceptions as keystoneauth_errors
from keystoneauth1 import loading, plugin
from oslo_config import cfg

from zaqar_redis import clock, errors

LOG = logging.getLogger(__name__)

#: Stock Zaqar's name: the user that trusts are for.
GROUP = "trustee"
#: Seconds for one response of Keystone; keystoneauth's own default is to wait for ever.
_TIMEOUT = 5
#: Keystone may close a kept connection at the moment when a request is sent over it.
_RETRIES = 1
#: Options of a plugin that say for what a token is: here it is always for a trust.
_SCOPES = frozenset(
    (
        *("project_id", "project_name", "project_domain_id", "project_domain_name"),
        *("domain_id", "domain_name", "system_scope", "trust_id"),
    )
)
#: It becomes part of a path; Keystone's are hexadecimal.
_TRUST_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_UNAVAILABLE = (
    "Keystone cannot be asked for trusts at the moment. Please try again in a few seconds."
)


def options(conf: cfg.ConfigOpts) -> dict[str, list[cfg.Opt]]:
    """Returns keystoneauth's options for the user, with those of the ``auth_type`` in *conf*.

    Raises BadConfiguration when there is no such type.
    """
    found = loading.get_auth_common_conf_options() + loading.get_session_conf_options()
    conf.register_opts(found, group=GROUP)
    conf.set_default("timeout", _TIMEOUT, group=GROUP)
    if conf[GROUP].auth_section:
        raise errors.BadConfiguration(
            f"[{GROUP}] auth_section: it is not supported; write the options into [{GROUP}]"
        )
    if not conf[GROUP].auth_type:
        return {GROUP: found}
    return {GROUP: found + loading.get_auth_plugin_conf_options(_loader(conf))}


def create(conf: cfg.ConfigOpts) -> KeystoneTrusts | None:
    """*conf*: with the `options`.  Returns None when they name no user.

    Raises BadConfiguration.
    """
    return KeystoneTrusts(conf) if conf[GROUP].auth_type else None


class KeystoneTrusts:
    """Makes, uses and deletes trusts.  Threads may share it.

    Its methods raise Forbidden when Keystone refuses, and Unavailable when it cannot be asked.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Raises BadConfiguration."""
        self._conf = conf
        try:
            self._session = loading.load_session_from_conf_options(
                conf, GROUP, connect_retries=_RETRIES
            )
            self._trustee = self._plugin()
        except (keystoneauth_errors.ClientException, cfg.Error, ValueError, OSError) as error:
            raise errors.BadConfiguration(f"[{GROUP}] {errors.reason(error)}") from error

    def create(self, token: str, project: str, ttl: int) -> str:
        """Returns the id of a new trust of whoever has *token*, with all of its roles.

        *ttl*: seconds after which it ends.
        """
        with _asking("a trust for this token"):
            trustor = self._token(token)
            if trustor.get("project", {}).get("id") != project:
                raise errors.Forbidden(why=_OTHER_PROJECT.format(project=project))
            trust = {
                "trustor_user_id": trustor["user"]["id"],
                "trustee_user_id": self._session.get_user_id(self._trustee),
                "project_id": project,
                "impersonation": True,
                "roles": [{"id": role["id"]} for role in trustor["roles"]],
                "expires_at": f"{clock.later(datetime.now(UTC), ttl):%Y-%m-%dT%H:%M:%S.%fZ}",
            }
            made = self._request("POST", "/OS-TRUST/trusts", token, json={"trust": trust})
            return str(made.json()["trust"]["id"])

    def check(self, token: str, trust_id: str) -> None:
        """Raises Forbidden unless whoever has *token* has made the trust.

        Otherwise everybody who has seen its id could send tokens of its maker to themselves.
        """
        with _asking(f"the trust {_safe(trust_id)} for this token"):
            trustor = self._token(token)["user"]["id"]
            found = self._request("GET", f"/OS-TRUST/trusts/{trust_id}", token).json()["trust"]
        if found["trustor_user_id"] != trustor:
            raise errors.Forbidden(why=f'The trust "{trust_id}" was made by another user.')

    def token(self, trust_id: str) -> tuple[str, float]:
        """Returns a token by a trust, and for how many seconds it is valid."""
        with _asking(f"a token by the trust {_safe(trust_id)}"):
            access = self._access(trust_id)
        left = (access.expires - datetime.now(UTC)).total_seconds()
        return access.auth_token, left

    def delete(self, trust_id: str) -> None:
        # Only its maker may do that, and with its own token the service acts as such.
        token, _ = self.token(trust_id)
        with _asking(f"to delete the trust {trust_id}"):
            self._request("DELETE", f"/OS-TRUST/trusts/{trust_id}", token)

    def _access(self, trust_id: str) -> Any:
        try:
            return self._plugin(trust_id).get_access(self._session)
        except keystoneauth_errors.Unauthorized as error:
            # That of a trust that is gone is the same as that of a wrong password: which is it?
            self._session.get_token(self._plugin())
            raise keystoneauth_errors.Forbidden(errors.reason(error)) from error

    def _token(self, token: str) -> dict[str, Any]:
        """Returns what Keystone knows of a token; roles have their ids only there."""
        headers = {"X-Subject-Token": token}
        found: dict[str, Any] = self._request("GET", "/auth/tokens", token, headers).json()
        return dict(found["token"])

    def _request(
        self, method: str, path: str, token: str, headers: dict[str, str] | None = None, **more: Any
    ) -> Any:
        try:
            return self._session.request(
                path,
                method,
                auth=self._trustee,
                authenticated=False,
                endpoint_filter={"interface": plugin.AUTH_INTERFACE, "version": (3, 0)},
                headers={"X-Auth-Token": token} | (headers or {}),
                **more,
            )
        except keystoneauth_errors.Unauthorized as error:
            # What Keystone says of a revoked token depends on when: 401, or 404.
            raise keystoneauth_errors.Forbidden(errors.reason(error)) from error

    def _plugin(self, trust_id: str | None = None) -> Any:
        loader = _loader(self._conf)
        scopes = {each.dest: None for each in loader.get_options() if each.dest in _SCOPES}
        own = self._conf[GROUP]
        return loader.load_from_options_getter(
            lambda option: own[option.dest], **scopes | ({"trust_id": trust_id} if trust_id else {})
        )


_OTHER_PROJECT = (
    "A subscriber with trust+ needs a token of the project {project}: the service gets a trust of "
    "its user in that project."
)


def _loader(conf: cfg.ConfigOpts) -> Any:
    try:
        return loading.get_plugin_loader(conf[GROUP].auth_type)
    except keystoneauth_errors.NoMatchingPlugin as error:
        raise errors.BadConfiguration(f"[{GROUP}] auth_type: {error}") from error


def _safe(trust_id: str) -> str:
    if not _TRUST_ID.fullmatch(trust_id):
        raise errors.Forbidden(why="What the subscription has as its trust_id cannot be one.")
    return trust_id


@contextmanager
def _asking(what: str) -> Iterator[None]:
    """Turns keystoneauth's errors into ours."""
    try:
        yield
    except (keystoneauth_errors.Forbidden, keystoneauth_errors.NotFound) as error:
        raise errors.Forbidden(why=f"Keystone refuses {what}: {errors.reason(error)}") from error
    except keystoneauth_errors.ClientException as error:
        LOG.warning(
            "Keystone gives no trusts, or tokens by them: %s",
            errors.reason(error),
            extra={"action": "trusts_unavailable"},
        )
        raise errors.Unavailable(why=_UNAVAILABLE) from error
