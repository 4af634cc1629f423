# SPDX-License-Identifier: Apache-2.0
"""What an idempotency key costs: memory, and Redis' time for a post that has one.

Posts without a key, with one, and with one that comes again, in turns over a server of
its own; the time is what the server says, which does not count who else is busy.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable

from tests import servers
from tests.contract.blocking import Blocking
from zaqar_redis.records import Retry

_WINDOW = 3_600_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000, help="%(default)s by default")
    parser.add_argument("--rounds", type=int, default=20, help="%(default)s by default")
    parser.add_argument("--server", default=servers.REDIS, help="program; %(default)s by default")
    asked = parser.parse_args()
    with servers.redis_server(asked.server) as server:
        plain, keyed = Blocking(server.uri, "plain"), Blocking(server.uri, "keyed")
        each = asked.records // asked.rounds
        keys = [f"00000000-0000-4000-8000-{number:012}" for number in range(asked.records)]
        times: dict[str, list[float]] = {"no key": [], "a new key": [], "a key again": []}
        grown = dict.fromkeys(times, 0)
        for number in range(asked.rounds):
            some = keys[number * each : (number + 1) * each]
            for what, post in (
                ("no key", lambda key: plain.post(key)),
                ("a new key", lambda key: keyed.post(key, retry=_retry(key))),
                ("a key again", lambda key: keyed.post(key, retry=_retry(key))),
            ):
                before = _number(keyed, "memory", "used_memory")
                times[what].append(_per_call(keyed, post, some))
                grown[what] += _number(keyed, "memory", "used_memory") - before
        for what, found in times.items():
            print(f"{what}: {statistics.median(found):.1f} µs of Redis a post")
        record = (grown["a new key"] - grown["no key"]) / (each * asked.rounds)
        print(f"{record:.0f} bytes a record, of {each * asked.rounds}")
        plain.close()
        keyed.close()


def _retry(key: str) -> Retry:
    return Retry(key=key, fingerprint=bytes(16), window=_WINDOW)


def _per_call(store: Blocking, post: Callable[[str], object], keys: list[str]) -> float:
    store.command("CONFIG", "RESETSTAT")
    for key in keys:
        post(key)
    return _number(store, "commandstats", "cmdstat_evalsha:.*usec") / len(keys)


def _number(store: Blocking, section: str, field: str) -> int:
    told: bytes = store.command("INFO", section)
    found = re.search(rf"^{field}[:=](\d+)", told.decode(), re.MULTILINE)
    assert found
    return int(found[1])


if __name__ == "__main__":
    main()
