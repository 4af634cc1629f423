# SPDX-License-Identifier: Apache-2.0
"""Allows paths in URIs, as MongoDB's have: stock's tests create pools that way."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from zaqar_redis.keyspace import uris


def lend(store: str) -> None:
    """Ignores a path that is no number, behind that of *store*, but lets it distinguish pools.

    Our driver refuses such paths: they would be one database under many names.
    """
    understood, spelt = uris.to_redis_uri, uris.normalize
    own = urlsplit(store).path

    def plain(uri: str) -> tuple[str, str]:
        parts = urlsplit(uri)
        name = parts.path.removeprefix(own).strip("/")
        if not parts.netloc or not name or name.isdecimal():
            return uri, ""
        return urlunsplit(parts._replace(path=own)), name

    uris.to_redis_uri = lambda uri: understood(plain(uri)[0])
    uris.normalize = lambda uri: spelt(plain(uri)[0]) + plain(uri)[1]
