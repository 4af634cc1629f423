# SPDX-License-Identifier: Apache-2.0
"""The options of the driver inside stock Zaqar, in its style: a group for each store."""

from __future__ import annotations

from oslo_config import cfg

from zaqar_redis.keyspace import uris
from zaqar_redis.storage.pools.retry import DEFAULT_RETRY

#: Schemes of redis-py, for which ours are others: stock Zaqar finds a driver by the scheme of a
#: pool's URI, and has one for ``redis`` already.
_REDIS_PY = ("redis", "rediss", "unix")
SCHEMES = tuple(scheme for scheme in uris.SCHEMES if scheme not in _REDIS_PY)
#: Of the default URI, by the last part of a scheme.
_PLACES = {"sentinel": "127.0.0.1:26379/mymaster", "cluster": "127.0.0.1:6379"}

_SHARED = [
    cfg.FloatOpt(
        "timeout", default=5.0, min=0.001, help="Seconds that Redis may take for one answer."
    ),
    cfg.FloatOpt(
        "connect_timeout", default=2.0, min=0.001, help="Seconds to wait for a connection."
    ),
    cfg.IntOpt(
        "max_connections",
        default=64,
        min=1,
        help="Connections of one process to one Redis; threads beyond wait for one.",
    ),
]
_MOVE_TIMEOUT = cfg.FloatOpt(
    "move_timeout",
    default=DEFAULT_RETRY.move_timeout,
    min=0.0,
    max=60.0,
    help="Seconds for which a request waits for a queue that is being moved to another pool.",
)


def store_options(store: str, scheme: str) -> tuple[str, list[cfg.Opt]]:
    """Returns group and options of the ``message`` or the ``management`` store."""
    uri = cfg.StrOpt(
        "uri",
        default=f"{scheme}://{_PLACES.get(scheme.rpartition('+')[2], '127.0.0.1:6379/0')}",
        secret=True,
        help="Where the data are: redis://host:port/db, rediss://host:port/db or "
        "unix:///path?db=0, or these with the schemes zaqar-redis, zaqar-redis+tls and "
        "zaqar-redis+unix, which pools need; redis+sentinel://host:port,host:port/name?db=0, "
        "redis+cluster://host:port,host:port, or rediss+... over TLS.",
    )
    more = [_MOVE_TIMEOUT] if store == "management" else []
    return f"drivers:{store}_store:{scheme}", [uri, *_SHARED, *more]


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Returns the options for oslo.config's generator."""
    return [store_options("message", SCHEMES[0]), store_options("management", SCHEMES[0])]
