# SPDX-License-Identifier: Apache-2.0
"""What is known of Redis' commands."""

from __future__ import annotations

#: Commands that a server does for itself: they have no key.
OF_SERVER = frozenset(
    ("ACL", "ASKING", "CLUSTER", "CONFIG", "INFO", "PING", "SCAN", "SCRIPT", "TIME", "WAIT")
)
#: Commands that change nothing, of those that the service uses.
READING = frozenset(
    (
        *OF_SERVER,
        *("EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HRANDFIELD"),
        *("HSCAN", "HSTRLEN", "LINDEX", "LRANGE", "SMEMBERS", "TYPE", "XLEN", "XRANGE"),
        *("XREVRANGE", "ZCARD", "ZCOUNT", "ZLEXCOUNT", "ZMSCORE", "ZRANGE", "ZRANGEBYLEX"),
        *("ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZSCAN", "ZSCORE"),
    )
)
#: Their options.
OPTIONS = frozenset(("BYSCORE", "COUNT", "LIMIT", "MATCH", "REV", "WITHSCORES", "WITHVALUES"))
