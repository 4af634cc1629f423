# SPDX-License-Identifier: Apache-2.0
"""Pools through stock Zaqar: what it cannot do to queues."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from zaqar.common import errors as zaqar_errors
from zaqar.storage import errors as storage_errors
from zaqar.storage import utils

from tests import servers
from tests.upstream import crowd, stock


def test_a_pool_with_queues_is_not_deleted_even_when_it_is_away(tmp_path: Path) -> None:
    with servers.redis_server() as home, servers.redis_server() as one:
        config = tmp_path / "zaqar.conf"
        config.write_text(stock.configuration(home.uri, pooling=True))
        made = crowd.bootstrap(str(config))
        pools = made.control.pools_controller
        pools.create("one", 100, f"zaqar-redis+{one.uri}")
        made.storage.queue_controller.create("q", project="p")
        with pytest.raises(storage_errors.PoolInUseByFlavor) as refusal:
            pools.delete("one")
        assert "queues (of these: 1)" in refusal.value.flavor
        one.signal(signal.SIGKILL)
        with pytest.raises(storage_errors.PoolInUseByFlavor):
            pools.delete("one")
        assert pools.get("one")["name"] == "one"
        made.storage.close()


def test_a_path_that_is_no_database_is_refused(tmp_path: Path) -> None:
    with servers.redis_server() as home:
        config = tmp_path / "zaqar.conf"
        config.write_text(stock.configuration("zaqar-redis://127.0.0.1:1/folder"))
        with pytest.raises(zaqar_errors.InvalidDriver, match="database number"):
            _ = crowd.bootstrap(str(config)).control  # it is made when asked for
        config.write_text(stock.configuration(home.uri, pooling=True))
        made = crowd.bootstrap(str(config))
        with home.client() as client:
            client.config_set("bind", "127.0.0.1")
            client.config_set("port", port := servers.free_port())
        store = f"zaqar-redis://127.0.0.1:{port}"
        assert utils.can_connect(store, conf=made.conf), "what a pool is tried with"
        assert not utils.can_connect(f"{store}/folder", conf=made.conf)
