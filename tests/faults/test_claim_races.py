# SPDX-License-Identifier: Apache-2.0
"""Hundreds of claimers in many processes, some of which die: their histories.

Leases expire while others claim, renew, release and delete. Afterwards the histories
must show no message in two live claims, none deleted twice or held once it was
deleted, and none lost.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faults import claimers
from tests.support import servers
from tests.support.stores import PATIENT_OPTIONS
from zaqar_redis.records import Lease, MessageListing, NewMessage
from zaqar_redis.storage.redis import RedisDriver, create

PROCESSES = 8
CLAIMERS = 50
MESSAGES = 1500
#: Long enough for several leases one after the other.
SECONDS = 8
#: Grants that a meaningful run needs, and ten times the number that it needs of the other
#: operations; a busy machine takes longer for them.
_ENOUGH = 1000
_OTHERS = ("renew", "release", "delete")
#: Processes that are killed in the middle of it, each with its claims.
KILLED = 3


class ClaimHold(NamedTuple):
    start: int
    #: until then the claim was certainly alive
    end: int
    claim: str


class ClaimHistory:
    """The merged histories of all processes."""

    def __init__(self, files: list[Path]) -> None:
        self.messages: dict[str, list[str]] = {}
        self.holds: dict[str, list[int]] = {}
        self.released: dict[str, int] = {}
        self.tried: set[str] = set()
        #: message -> claim, asked, answered
        self.deletions: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        self.kinds: Counter[str] = Counter()
        for file in files:
            lines = file.read_bytes().split(b"\n")
            for line in lines[:-1]:  # after the last line break: nothing, or half a line
                self._read(*json.loads(line))

    def _read(self, kind: str, claim: str, *rest: Any) -> None:
        self.kinds[kind] += 1
        if kind == "grant":
            start, end, self.messages[claim] = rest
            self.holds[claim] = [start, end]
        elif kind == "renew":
            self.holds[claim][1] = rest[0]
        elif kind == "release":
            self.released[claim] = rest[0]
        elif kind == "try":
            self.tried.add(rest[0])
        else:
            message, asked, answered = rest
            # After the end of its lease a claim may have found the message already deleted.
            if answered < self.holds[claim][1]:
                self.deletions[message].append((claim, asked, answered))

    def of_messages(self) -> dict[str, list[ClaimHold]]:
        """Returns the holds of each message, in order of time."""
        found: dict[str, list[ClaimHold]] = defaultdict(list)
        for claim, messages in self.messages.items():
            start, end = self.holds[claim]
            end = min(end, self.released.get(claim, end))
            for message in messages:
                deleted = [asked for by, asked, _ in self.deletions[message] if by == claim]
                found[message].append(ClaimHold(start, min([end, *deleted]), claim))
        return {message: sorted(holds) for message, holds in found.items()}


@pytest.mark.nightly
def test_claims_of_many_processes_never_overlap(tmp_path: Path, project: str) -> None:
    with servers.redis_server() as redis:
        posted = asyncio.run(_posted(redis.uri, project))
        files = [tmp_path / f"{number}.jsonl" for number in range(PROCESSES)]
        _run(redis, project, files)
        left, drained = asyncio.run(_drained(redis.uri, project))
    history = ClaimHistory(files)
    _check_holds(history)
    _check_messages(history, posted, left, drained)
    # The run must have done enough work.
    assert all(file.stat().st_size for file in files)
    assert history.kinds["grant"] >= _ENOUGH
    assert min(history.kinds[kind] for kind in _OTHERS) >= _ENOUGH / 10
    assert left


def _check_holds(history: ClaimHistory) -> None:
    expired = 0
    for message, holds in history.of_messages().items():
        for before, after in itertools.pairwise(holds):
            assert before.end <= after.start, (message, before, after)
            expired += before.claim not in history.released
        for claim, _, answered in history.deletions[message]:
            later = [hold for hold in holds if hold.start > answered and hold.claim != claim]
            assert later == [], message
    assert expired > history.kinds["grant"] / 20  # claims did expire, and others took over


def _check_messages(
    history: ClaimHistory, posted: set[str], left: list[str], drained: list[str]
) -> None:
    deleted = {message for message, times in history.deletions.items() if times}
    assert [message for message, times in history.deletions.items() if len(times) > 1] == []
    assert len(set(left)) == len(left)
    assert sorted(drained) == sorted(left)
    assert deleted & set(left) == set()
    # A killed or late claimer may have deleted without a counted entry.
    assert posted - deleted - set(left) <= history.tried
    assert deleted | set(left) <= posted


async def _posted(uri: str, project: str) -> set[str]:
    driver = create(uri, PATIENT_OPTIONS)
    await driver.start()
    ids: set[str] = set()
    for _ in range(MESSAGES // 100):
        posted = await driver.messages.post(
            project,
            claimers.QUEUE,
            [NewMessage(body=b"1")] * 100,
            client="",
            default_ttl=3600,
            size=0,
        )
        ids.update(posted.ids)
    await driver.close()
    return ids


def _has_enough(files: list[Path]) -> bool:
    """Whether the run has done enough, however busy the machine is."""
    text = "".join(file.read_text() for file in files)
    counts = {kind: text.count(f'["{kind}"') for kind in ("grant", *_OTHERS)}
    return counts["grant"] >= _ENOUGH and min(counts[kind] for kind in _OTHERS) >= _ENOUGH / 10


def _run(redis: servers.RedisServer, project: str, files: list[Path]) -> None:
    command = [sys.executable, "-m", "tests.faults.claimers", redis.uri, project]
    running = [
        subprocess.Popen([*command, str(file), str(CLAIMERS)], cwd=Path(__file__).parents[2])
        for file in files
    ]
    try:
        servers.wait_for(lambda: all(map(_has_begun, files)), "claimers to claim")
        end = time.monotonic() + SECONDS
        for victim in running[:KILLED]:
            time.sleep(random.uniform(0.5, 1.5))
            victim.kill()
        time.sleep(max(0.0, end - time.monotonic()))
        servers.wait_for(lambda: _has_enough(files), "claimers to do enough")
        with redis.client() as console:
            console.set(claimers.OVER, 1)
        assert [process.wait(30) for process in running[:KILLED]] == [-9] * KILLED
        assert [process.wait(30) for process in running[KILLED:]] == [0] * (PROCESSES - KILLED)
    finally:
        for process in running:
            process.kill()
            process.wait()


def _has_begun(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


async def _drained(uri: str, project: str) -> tuple[list[str], list[str]]:
    """Returns what the queue lists, and what claims return once all leases have expired."""
    driver = create(uri, PATIENT_OPTIONS)
    await driver.start()
    await asyncio.sleep(claimers.TTL + 0.1)
    left = await _listed(driver, project)
    drained: list[str] = []
    while True:
        taken = await driver.claims.create(project, claimers.QUEUE, Lease(60, 60), limit=100)
        if taken.claim_id is None:
            break
        drained += [message.id for message in taken.messages]
    await driver.close()
    return left, drained


async def _listed(driver: RedisDriver, project: str) -> list[str]:
    found: list[str] = []
    while True:
        after = found[-1] if found else None
        listing = MessageListing(500, after, include_claimed=True, include_delayed=True)
        page = await driver.messages.list(project, claimers.QUEUE, listing)
        if not page.items:
            return found
        found += [message.id for message in page.items]
