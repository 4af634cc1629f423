# SPDX-License-Identifier: Apache-2.0
"""The spellings of the URIs of stores."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

#: Schemes by which stock Zaqar tells this driver's pools from those of its own.
_ZAQAR_SCHEMES = {"zaqar-redis": "redis", "zaqar-redis+tls": "rediss", "zaqar-redis+unix": "unix"}
_FOR_STOCK = {plain: own for own, plain in _ZAQAR_SCHEMES.items()}
SCHEMES = (*_FOR_STOCK, *_ZAQAR_SCHEMES)


def to_redis_uri(uri: str) -> str:
    """Returns the URI as redis-py takes it, if it has a scheme of this driver; else unchanged.

    Stock Zaqar's driver calls the database ``dbid``, which is accepted too.
    """
    parts = urlsplit(uri)
    scheme = _ZAQAR_SCHEMES.get(parts.scheme)
    if scheme is None:
        return uri
    options = [(name.strip(), value.strip()) for name, value in parse_qsl(parts.query)]
    query = urlencode([("db" if name == "dbid" else name, value) for name, value in options])
    # urlunsplit drops the slashes of an unknown scheme.
    return f"{scheme}://{parts.netloc}{parts.path}{'?' if query else ''}{query}"


def to_zaqar_uri(uri: str) -> str:
    """Returns the URI with a scheme of this driver, if it is that of a Redis; else unchanged."""
    scheme, colon, rest = uri.partition(":")
    return _FOR_STOCK.get(scheme, scheme) + colon + rest


def canonical(uri: str) -> str:
    """Returns one spelling for all URIs that are plainly those of one store."""
    return normalize(uri).replace("//localhost:", "//127.0.0.1:")


def normalize(uri: str) -> str:
    """Returns one spelling for a store under one host name, as stock Zaqar needs."""
    plain = to_redis_uri(uri)
    parts = urlsplit(plain)
    option = parse_qs(parts.query).get("db", [""])[0]
    if parts.scheme == "unix":
        return f"unix://{parts.path}?db={option or 0}"
    if parts.scheme not in ("redis", "rediss"):
        return uri
    database = parts.path.strip("/") or option or 0
    return f"{parts.scheme}://{parts.hostname or ''}:{parts.port or 6379}/{database}"


def redact_password(uri: str) -> str:
    """Returns the URI without its password, wherever the URI has it.

    Also for an invalid URI whose password has characters that should be escaped.
    """
    plain = re.sub(r"([?&][^=&]*(?:password|passwd|pwd)[^=&]*=)[^&]*", r"\1***", uri, flags=re.I)
    return re.sub(r"(://[^:@]*):.*@", r"\1:***@", plain, flags=re.S)
