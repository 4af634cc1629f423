# SPDX-License-Identifier: Apache-2.0
"""Drain of a pool while clients post, claim and delete, with an audit of every message.

    python -m benchmarks.drain --queues 20 --messages 20000

starts a service of two workers, its store and two pools of its own, and stops them. It
runs the commands that an operator would, and prints them with their output.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
import uuid

import httpx

from tests.faults import load
from tests.support import servers

_OPTIONS: dict[str, dict[str, object]] = load.OPTIONS | {"DEFAULT": {"admin_mode": True}}
#: Messages posted at once while the idle queues are filled.
_FILL = 1000
_PROJECT = "idle"


class DrainRun:
    def __init__(
        self, service: servers.RunningService, stores: dict[str, servers.RedisServer]
    ) -> None:
        self.service = service
        #: names printed in place of the stores' URIs
        self._names = {store.uri: name for name, store in stores.items()}

    def command(self, *words: str) -> None:
        """Runs ``zaqar-redis``; prints the command and its output."""
        target = () if "--storage" in words else ("--url", self.service.url)
        done = subprocess.run(
            [sys.executable, "-m", "zaqar_redis.cli.main", *words, *target],
            capture_output=True,
            text=True,
        )
        progress = done.stderr.replace("\r", "\n").strip().splitlines()
        print(f"\n$ zaqar-redis {' '.join(self._names.get(word, word) for word in words)}")
        for line in (*progress[-1:], *done.stdout.strip().splitlines()):
            print(line, flush=True)
        if done.returncode:
            raise SystemExit(f"exit code {done.returncode}: {done.stderr}")

    def fill(self, queues: int, messages: int) -> None:
        with httpx.Client(headers=load.headers(_PROJECT), timeout=60) as client:
            for queue in range(queues):
                for start in range(0, messages, _FILL):
                    bodies = [
                        {"body": f"{number} " + "x" * 150}
                        for number in range(start, min(start + _FILL, messages))
                    ]
                    client.post(
                        f"{self.service.url}/v2/queues/idle-{queue}/messages",
                        json={"messages": bodies},
                    ).raise_for_status()

    def wrong_idle(self, queues: int, messages: int) -> list[str]:
        """Returns the idle queues that do not hold exactly what was posted, in order."""
        return [
            f"idle-{queue}"
            for queue in range(queues)
            if [int(body.split()[0]) for body in load.held(self.service, _PROJECT, f"idle-{queue}")]
            != list(range(messages))
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queues", type=int, default=20, help="idle ones (20, at most 1000)")
    parser.add_argument("--messages", type=int, default=20_000, help="in each (20000)")
    parser.add_argument("--busy", type=int, default=3, help="queues with clients (3, at most 10)")
    args = parser.parse_args()
    queues, messages = min(args.queues, 1000), min(args.messages, 100_000)
    options = _OPTIONS | {
        "transport": {"max_messages_per_page": 1000, "max_messages_post_size": 2**20}
    }
    with contextlib.ExitStack() as stack:
        default_store, one, two = (stack.enter_context(servers.redis_server()) for _ in range(3))
        service = stack.enter_context(
            servers.service(default_store.uri, workers=2, options=options)
        )
        run = DrainRun(service, {"DEFAULT": default_store, "ONE": one, "TWO": two})
        run.command("pool", "create", "one", "--uri", one.uri, "-f", "value", "-c", "name")
        run.fill(queues, messages)
        loads = [
            stack.enter_context(load.QueueLoad(service, f"busy-{uuid.uuid4().hex[:8]}"))
            for _ in range(min(args.busy, 10))
        ]
        for clients in loads:
            clients.wait_for_more()
        run.command("pool", "create", "two", "--uri", two.uri, "-f", "value", "-c", "name")
        run.command("pool", "list", "-c", "name", "-c", "weight", "-c", "draining")
        begun = time.monotonic()
        run.command("pool", "drain", "one")
        took = time.monotonic() - begun
        for clients in loads:
            clients.wait_for_more()
        run.command("pool", "delete", "one", "--yes")
        for clients in loads:
            clients.stop()
        run.command("pool", "show", "two", "-c", "name", "-c", "queues", "-c", "draining")
        run.command("check", "--storage", default_store.uri)
        return _report(run, loads, queues, messages, took)


def _report(
    run: DrainRun, loads: list[load.QueueLoad], queues: int, messages: int, took: float
) -> int:
    audits = [clients.audit() for clients in loads]
    wrong = run.wrong_idle(queues, messages)
    statuses = sum((clients.statuses for clients in loads), start=loads[0].statuses.__class__())
    lost = sum(len(audit.lost) for audit in audits)
    doubled = sum(len(audit.doubled) for audit in audits)
    undead = sum(len(audit.undead) for audit in audits)
    failures = [text for clients in loads for text in clients.wrong]
    print(
        f"\n{queues} idle queues of {messages} messages and {len(loads)} busy ones moved in "
        f"{took:.1f} s.\n"
        f"Idle queues with other messages than were posted: {len(wrong)}.\n"
        f"Busy queues: {sum(len(clients.posted) for clients in loads)} posts acknowledged, "
        f"{sum(len(clients.deleted) for clients in loads)} deletions; {lost} messages lost, "
        f"{doubled} doubled, {undead} back after their deletion.\n"
        f"Responses by status: {dict(sorted(statuses.items()))}; the slowest took "
        f"{max(clients.slowest for clients in loads):.2f} s; unexpected: {len(failures)}."
    )
    for text in failures[:10]:
        print(text)
    return int(bool(lost or doubled or undead or wrong or failures))


if __name__ == "__main__":
    sys.exit(main())
