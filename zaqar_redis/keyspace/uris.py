# SPDX-License-Identifier: Apache-2.0
"""How stores are spelt."""

from __future__ import annotations

from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

#: Schemes by which stock Zaqar tells our pools from those of its own driver.
_OURS = {"zaqar-redis": "redis", "zaqar-redis+tls": "rediss", "zaqar-redis+unix": "unix"}
_FOR_STOCK = {plain: ours for ours, plain in _OURS.items()}
SCHEMES = (*_FOR_STOCK, *_OURS)


def understood(uri: str) -> str:
    """The URI in redis-py's words, when it has one of our own schemes; else as it is.

    Stock Zaqar's driver calls the database ``dbid``; so may ours.
    """
    parts = urlsplit(uri)
    scheme = _OURS.get(parts.scheme)
    if scheme is None:
        return uri
    options = [(name.strip(), value.strip()) for name, value in parse_qsl(parts.query)]
    query = urlencode([("db" if name == "dbid" else name, value) for name, value in options])
    # urlunsplit drops the slashes of a scheme that it does not know.
    return f"{scheme}://{parts.netloc}{parts.path}{'?' if query else ''}{query}"


def for_stock(uri: str) -> str:
    """The URI with one of our own schemes, when it is that of a Redis; else as it is."""
    scheme, colon, rest = uri.partition(":")
    return _FOR_STOCK.get(scheme, scheme) + colon + rest


def canonical(uri: str) -> str:
    """One spelling for what are plainly the same store."""
    return spelt(uri).replace("//localhost:", "//127.0.0.1:")


def spelt(uri: str) -> str:
    """One spelling for a store under one host name, all that stock Zaqar asks for."""
    plain = understood(uri)
    parts = urlsplit(plain)
    asked = parse_qs(parts.query).get("db", [""])[0]
    if parts.scheme == "unix":
        return f"unix://{parts.path}?db={asked or 0}"
    if parts.scheme not in ("redis", "rediss"):
        return uri
    database = parts.path.strip("/") or asked or 0
    return f"{parts.scheme}://{parts.hostname or ''}:{parts.port or 6379}/{database}"
