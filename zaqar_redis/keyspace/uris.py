# SPDX-License-Identifier: Apache-2.0
"""The spellings of the URIs of stores."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

#: Schemes by which stock Zaqar tells this driver's pools from those of its own.
_ZAQAR_SCHEMES = {
    "zaqar-redis": "redis",
    "zaqar-redis+tls": "rediss",
    "zaqar-redis+unix": "unix",
    "zaqar-redis+sentinel": "redis+sentinel",
    "zaqar-redis+tls+sentinel": "rediss+sentinel",
    "zaqar-redis+cluster": "redis+cluster",
    "zaqar-redis+tls+cluster": "rediss+cluster",
}
_FOR_STOCK = {plain: own for own, plain in _ZAQAR_SCHEMES.items()}
#: A host, or an IPv6 address in brackets; and its port.
_HOST = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]+))(?::(\d+))?")
SCHEMES = (*_ZAQAR_SCHEMES, *_FOR_STOCK)


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
    if is_sentinel(plain) or is_cluster(plain):
        named = ",".join(sorted(f"{host}:{port}" for host, port in hosts(plain, 0)))
        return f"{parts.scheme}://{named}{parts.path.rstrip('/')}?db={option or 0}"
    if parts.scheme == "unix":
        return f"unix://{parts.path}?db={option or 0}"
    if parts.scheme not in ("redis", "rediss"):
        return uri
    database = parts.path.strip("/") or option or 0
    return f"{parts.scheme}://{parts.hostname or ''}:{parts.port or 6379}/{database}"


def is_sentinel(uri: str) -> bool:
    return urlsplit(uri).scheme in ("redis+sentinel", "rediss+sentinel")


def is_cluster(uri: str) -> bool:
    return urlsplit(uri).scheme in ("redis+cluster", "rediss+cluster")


def hosts(uri: str, port: int) -> list[tuple[str, int]]:
    """Returns the hosts that the URI names, separated by commas; *port*: of those without one.

    Raises ValueError.
    """
    found = []
    for each in urlsplit(uri).netloc.rpartition("@")[2].split(","):
        match = _HOST.fullmatch(each)
        if match is None:
            raise ValueError(f'"{each}" is no host: write HOST:PORT,HOST:PORT')
        found.append(((match[1] or match[2]), int(match[3] or port)))
    return found


def of_node(uri: str, host: str, port: int) -> str:
    """Returns the URI of one node, with the user, password and options of a URI of several."""
    parts = urlsplit(uri)
    userinfo, at, _ = parts.netloc.rpartition("@")
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme.partition('+')[0]}://{userinfo}{at}{address}{query}"


def redact_password(uri: str) -> str:
    """Returns the URI without its password, wherever the URI has it.

    Also for an invalid URI whose password has characters that should be escaped.
    """
    plain = re.sub(r"([?&][^=&]*(?:password|passwd|pwd)[^=&]*=)[^&]*", r"\1***", uri, flags=re.I)
    return re.sub(r"(://[^:@]*):.*@", r"\1:***@", plain, flags=re.S)
