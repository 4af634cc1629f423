# SPDX-License-Identifier: Apache-2.0
"""A worker that does the jobs of a queue, one at a time; start as many as you like.

    pip install httpx
    zaqar-redis queue create jobs --project demo --metadata '{
        "_max_claim_count": 5, "_dead_letter_queue": "jobs-dead",
        "_redelivery_delay": {"minimum_delay": 60, "backoff_function": "exponential"}}'
    python worker.py http://127.0.0.1:8888 demo jobs

If a worker dies, its claim ends and another worker gets the job.  The queue decides when a failed
job is tried again, here after 1, 2, 4, 8 minutes, and how often: the fifth time it is set aside.
SIGTERM and Ctrl-C end the worker after its current job.
"""

import random
import signal
import sys
import time
import uuid
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import httpx

TTL = 60  # seconds
stopping = Event()


def work(body: Any) -> None:
    """Does your work, here with {"job": …}.  If a worker dies, the work may be done twice: make
    that harmless."""
    print("done:", body["job"], flush=True)


def renew(http: httpx.Client, claim: str, has_ended: Event) -> None:
    while not has_ended.wait(TTL / 3):
        with suppress(httpx.HTTPError):  # the next one is in time, too
            http.patch(claim, json={"ttl": TTL, "grace": TTL})


def handle(http: httpx.Client, claim: str, message: dict[str, Any]) -> None:
    has_ended = Event()
    Thread(target=renew, args=(http, claim, has_ended), daemon=True).start()
    try:
        work(message["body"])
    except Exception as error:
        has_ended.set()
        print(f"failed, attempt {message['claim_count']}: {error!r}", flush=True)
        http.delete(claim)
    else:
        while not delete(http, message["href"]):  # until then the claim goes on
            time.sleep(1)
        has_ended.set()


def delete(http: httpx.Client, href: str) -> bool:
    """Returns False when the service is away, or has too much to do."""
    try:
        deleted = http.delete(href)
    except httpx.TransportError:
        return False
    if deleted.is_server_error or deleted.status_code == 429:
        return False
    if deleted.is_client_error:
        print("the claim had ended: another worker may do the job again", flush=True)
    return True


def main(url: str, project: str, queue: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    headers, pause = {"Client-ID": str(uuid.uuid4()), "X-Project-ID": project}, 1.0
    claims = f"/v2/queues/{queue}/claims?limit=1&wait=5&detailed=true"
    with httpx.Client(base_url=url, headers=headers, timeout=30) as http:
        while not stopping.is_set():
            try:
                claim = http.post(claims, json={"ttl": TTL, "grace": TTL})
                if claim.is_client_error and claim.status_code != 429:
                    sys.exit(f"the service refuses to serve {queue}: {claim.text}")
                claim.raise_for_status()
                location = claim.headers.get("Location", "")
                if stopping.is_set() and location:  # while it waited for a job
                    http.post(f"{location}/release", json={"delay": 0})
                elif location:
                    for message in claim.json()["messages"]:
                        handle(http, location, message)
                pause = 1.0
            except httpx.HTTPError as error:  # the service is away, or has too much to do
                print("trying again:", error, file=sys.stderr)
                stopping.wait(pause * random.uniform(1, 1.5))
                pause = min(2 * pause, 30)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
