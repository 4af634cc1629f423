# SPDX-License-Identifier: Apache-2.0
"""The driver serves threads, green threads and forked processes at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import processes, servers
from tests.support.backends import NewStore
from tests.support.tiers import in_gate
from tests.upstream import crowd, stock

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("how", in_gate(["fork", "threads", "gevent", "eventlet"]))
def test_each_message_is_claimed_once(how: str, tmp_path: Path, new_store: NewStore) -> None:
    with new_store() as store:
        config = servers.config_file(tmp_path, stock.configuration(store.uri))
        command = [*processes.PYTHON, "tests.upstream.crowd", how, config, store.uri]
        done = processes.run(command, timeout=100, cwd=_ROOT)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(report["claimed"]) == crowd.WORKERS
    ids = [id for each in report["claimed"] for id in each]
    assert len(ids) == crowd.WORKERS * crowd.EACH + 1
    assert len(set(ids)) == len(ids)
    assert report["turns"] >= crowd.TURNS, "other threads run while one waits for Redis"
