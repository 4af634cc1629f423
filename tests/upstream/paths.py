# SPDX-License-Identifier: Apache-2.0
"""Lets URIs have paths as MongoDB's do: stock's tests make pools of their own so."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from zaqar_redis.keyspace import uris


def lend() -> None:
    """A path that is no number is passed over, and still makes another pool.

    Our driver refuses it: it would be one database under many names.
    """
    understood, spelt = uris.understood, uris.spelt

    def plain(uri: str) -> tuple[str, str]:
        parts = urlsplit(uri)
        name = parts.path.strip("/")
        if not parts.netloc or not name or name.isdecimal():
            return uri, ""
        return urlunsplit(parts._replace(path="")), name

    uris.understood = lambda uri: understood(plain(uri)[0])
    uris.spelt = lambda uri: spelt(plain(uri)[0]) + plain(uri)[1]
