# SPDX-License-Identifier: Apache-2.0
"""What an idempotency key costs: memory, and Redis' time for a post that has one.

Posts without a key, with a new one, and with a repeated one, in turns over a server of its
own; the times are from the server's commandstats, which leave out other processes.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable

from tests.support import servers
from tests.support.blocking import BlockingStore
from zaqar_redis.records import IdempotencyKey

_WINDOW = 3_600_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000, help="%(default)s by default")
    parser.add_argument("--rounds", type=int, default=20, help="%(default)s by default")
    parser.add_argument("--server", default=servers.REDIS, help="program; %(default)s by default")
    args = parser.parse_args()
    with servers.redis_server(args.server) as server:
        plain, keyed = BlockingStore(server.uri, "plain"), BlockingStore(server.uri, "keyed")
        each = args.records // args.rounds
        keys = [f"00000000-0000-4000-8000-{number:012}" for number in range(args.records)]
        times: dict[str, list[float]] = {"no key": [], "a new key": [], "a key again": []}
        for number in range(args.rounds):
            some = keys[number * each : (number + 1) * each]
            for what, post in (
                ("no key", lambda key: plain.post(key)),
                ("a new key", lambda key: keyed.post(key, idempotency_key=_idempotency_key(key))),
                ("a key again", lambda key: keyed.post(key, idempotency_key=_idempotency_key(key))),
            ):
                times[what].append(_per_call(keyed, post, some))
        for what, found in times.items():
            print(f"{what}: {statistics.median(found):.1f} µs of Redis per post")
        number = each * args.rounds
        print(f"{(_used(keyed) - _used(plain)) / number:.0f} bytes per record, of {number}")
        plain.close()
        keyed.close()


def _idempotency_key(key: str) -> IdempotencyKey:
    return IdempotencyKey(key=key, fingerprint=bytes(16), window=_WINDOW)


def _per_call(store: BlockingStore, post: Callable[[str], object], keys: list[str]) -> float:
    store.command("CONFIG", "RESETSTAT")
    for key in keys:
        post(key)
    info: bytes = store.command("INFO", "commandstats")
    found = re.search(rb"^cmdstat_evalsha:.*usec=(\d+)", info, re.MULTILINE)
    assert found
    return int(found[1]) / len(keys)


def _used(store: BlockingStore) -> int:
    """Returns the bytes of all keys of the project."""
    of_project = store.command("KEYS", f"zr:{{{store.project}/*")
    return sum(store.command("MEMORY", "USAGE", key, "SAMPLES", 0) for key in of_project)


if __name__ == "__main__":
    main()
