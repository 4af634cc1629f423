# SPDX-License-Identifier: Apache-2.0
"""Tokens of Keystone: needs the extra `keystone`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic

from keystoneauth1.exceptions import ClientException, HttpError
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.session import Session

from zaqar_redis_client.errors import Refused, Unavailable

#: Seconds for which a token is not asked for again: keystoneauth1 replaces it 30 seconds before
#: it expires.
_FRESH = 20.0


class Keystone:
    """Asks Keystone for tokens, with a session or an authentication plugin of keystoneauth1.

    The project is that of the token.  Requests raise Refused and Unavailable for Keystone, too.
    """

    def __init__(self, auth: Session | BaseAuthPlugin) -> None:
        self._session = Session(auth=auth) if isinstance(auth, BaseAuthPlugin) else auth
        self._headers: Mapping[str, str] = {}
        self._asked_at = 0.0

    async def headers(self) -> Mapping[str, str]:
        # Without a lock, as loops may share it: keystoneauth1 asks for one token at a time.
        now, headers = monotonic(), self._headers
        if not headers or now > self._asked_at + _FRESH:
            headers = self._headers = await asyncio.to_thread(self._ask)
            self._asked_at = now
        return headers

    async def renew(self) -> bool:
        await asyncio.to_thread(self._session.invalidate)
        self._headers = {}  # now: another task may have got the old ones meanwhile
        return True  # also if another task has done it just before

    def _ask(self) -> Mapping[str, str]:
        try:
            return dict(self._session.get_auth_headers() or {})
        except ClientException as error:
            if isinstance(error, HttpError) and error.http_status < 500:
                raise Refused(error.http_status, "Keystone", str(error), "a token") from error
            raise Unavailable(f"Keystone: {error}", may_be_done=False) from error
