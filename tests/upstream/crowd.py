# SPDX-License-Identifier: Apache-2.0
"""Concurrent workers on stock Zaqar's storage over our driver: a program for tests.

    python -m tests.upstream.crowd threads|gevent|eventlet|fork zaqar.conf URI

Eight workers post and claim, on a driver that was used before they began, until each
has done its share. Prints as JSON the ids that each claimed, and how often another
thread ran while a call waited for Redis.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from importlib import import_module
from typing import Any

WORKERS, EACH = 8, 60
#: Milliseconds for which Redis is paused at most: less than the timeout of a reply.
_PAUSE = 4000
#: Seconds between turns of the other thread, and how many of them end the pause.
_TURN, TURNS = 0.01, 20


def main() -> int:
    how, config, uri = sys.argv[1:]
    if how == "gevent":
        import_module("gevent.monkey").patch_all()
    elif how == "eventlet":
        import_module("eventlet").monkey_patch()
    driver = storage(config)
    _post(driver, -1)
    claimed = _forked(driver) if how == "fork" else _threads(driver)
    print(json.dumps({"claimed": claimed, "turns": _turns(driver, uri)}))
    return 0


def storage(config: str) -> Any:
    """Returns stock Zaqar's storage, created as stock does."""
    return bootstrap(config).storage


def bootstrap(config: str) -> Any:
    """Returns the bootstrap of stock Zaqar, for its stores only."""
    conf = import_module("oslo_config.cfg").ConfigOpts()
    import_module("oslo_log.log").register_options(conf)
    conf(args=[], project="zaqar", default_config_files=[config])
    return import_module("zaqar.bootstrap").Bootstrap(conf)


def _post(storage: Any, number: int) -> None:
    messages = [{"body": number, "ttl": 600}]
    storage.message_controller.post("q", messages, None, project="p")


def _work(storage: Any, worker: int) -> list[str]:
    """Posts a share of the messages, and claims some in turn; returns their ids."""
    found: list[str] = []
    for number in range(EACH):
        _post(storage, worker * EACH + number)
        _, messages = storage.claim_controller.create(
            "q", {"ttl": 300, "grace": 60}, project="p", limit=2
        )
        found += [message["id"] for message in messages]
    return found


def _threads(storage: Any) -> list[list[str]]:
    found: dict[int, list[str]] = {}

    def work(worker: int) -> None:
        found[worker] = _work(storage, worker)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return list(found.values())


def _forked(storage: Any) -> list[list[str]]:
    """Runs each worker in a forked process, which inherits the connections of this one."""
    pipes = [_child(storage, worker) for worker in range(1, WORKERS)]
    found = [_work(storage, 0)]  # at the same time
    for pipe in pipes:
        with os.fdopen(pipe) as written:
            found.append(json.load(written))
    return found


def _child(storage: Any, worker: int) -> int:
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        return reading
    try:
        with os.fdopen(writing, "w") as output:
            json.dump(_work(storage, worker), output)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _turns(storage: Any, uri: str) -> int:
    """Returns how often a second thread ran while Redis delayed a post."""
    turns, done = 0, False
    settings = import_module("zaqar_redis.keyspace.settings").BatchSettings()
    client = import_module("zaqar_redis.keyspace.blocking").client(uri, settings)
    nodes = client.nodes()

    def count() -> None:
        nonlocal turns
        while not done:
            time.sleep(_TURN)
            turns += 1
            if turns == TURNS:
                for node in nodes:
                    node.command("CLIENT", "UNPAUSE")

    for node in nodes:
        node.command("CLIENT", "PAUSE", _PAUSE, "WRITE")
    counting = threading.Thread(target=count)
    counting.start()
    _post(storage, -2)
    done = True
    counting.join()
    return turns


if __name__ == "__main__":
    sys.exit(main())
