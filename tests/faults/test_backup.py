# SPDX-License-Identifier: Apache-2.0
"""A queue is saved while clients use it: the backup has what was acknowledged before."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.faults import load
from tests.support import servers
from tests.support.command_line import CommandLine
from tests.support.stores import opened

#: The copy takes a while; clients take from these, too.
_OLD = 20_000
_PAGE = 1000


def _fill(service: servers.RunningService, project: str) -> set[str]:
    bodies = [f"old {number}" for number in range(_OLD)]
    headers = load.headers(project)
    with httpx.Client(base_url=service.url, headers=headers, timeout=60) as http:
        for start in range(0, _OLD, _PAGE):
            messages = [{"body": body} for body in bodies[start : start + _PAGE]]
            answer = http.post("/v2/queues/busy/messages", json={"messages": messages})
            assert answer.status_code == 201, answer.text
    return set(bodies)


@pytest.mark.nightly
def test_backup_of_a_busy_queue_has_what_was_acknowledged_and_no_request_fails(
    project: str, tmp_path: Path
) -> None:
    options = load.OPTIONS | {
        "transport": {"max_messages_per_page": _PAGE, "max_messages_post_size": 10**6}
    }
    with servers.redis_server() as source, servers.service(source.uri, options=options) as service:
        old = _fill(service, project)
        with load.QueueLoad(service, project) as clients:
            clients.posted |= old
            for number in range(3):
                clients.wait_for_more()
                posted, deleted = set(clients.posted), set(clients.deleted)
                file = str(tmp_path / f"{number}.backup.gz")
                CommandLine(["--storage", source.uri]).done("backup", "--to", file)
                found = _restored(file, project)
                assert posted - clients.perhaps_deleted <= set(found)
                assert not deleted & set(found)
                assert set(found.values()) == {1}
        assert set(clients.statuses) <= {201, 204}
        assert (clients.broken, clients.wrong) == (0, [])
        clients.check()


def _restored(file: str, project: str) -> Counter[str]:
    """Restores a backup into a store of its own; returns the bodies that it has then."""
    with servers.redis_server() as target:
        shell = CommandLine(["--storage", target.uri])
        shell.done("restore", "--from", file)
        assert shell.shown("check") == []
        with opened(target.uri, project) as store:
            store.clock.now = round(time.time() * 1000)
            return Counter(store.listed("busy"))
