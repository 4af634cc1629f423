# SPDX-License-Identifier: Apache-2.0
"""Metadata that two processes change: each caches them for a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from zaqar.storage import errors as storage_errors

from tests.support import servers
from tests.support.backends import NewStore
from tests.upstream import crowd, stock


@pytest.fixture
def controllers(tmp_path: Path, new_store: NewStore) -> Iterator[tuple[Any, Any]]:
    """The queue controllers of two storages, in place of two processes."""
    with new_store() as store:
        config = servers.config_file(tmp_path, stock.configuration(store.uri))
        both = [crowd.storage(config) for _ in range(2)]
        yield both[0].queue_controller, both[1].queue_controller
        for each in both:
            each.close()


def test_change_is_visible_to_other_processes_within_the_cache_ttl(
    controllers: tuple[Any, Any],
) -> None:
    one, other = controllers
    one.create("q", {"colour": "red"}, project="p")
    assert other.get_metadata("q", "p") == {"colour": "red"}
    one.set_metadata("q", {"colour": "blue"}, "p")
    assert one.get_metadata("q", "p") == {"colour": "blue"}, "at once in the changing process"
    assert other.get("q", project="p") == {"colour": "blue"}, "and at once by get()"
    servers.wait_for(
        lambda: other.get_metadata("q", "p") == {"colour": "blue"}, "the change", seconds=5
    )
    one.delete("q", project="p")
    with pytest.raises(storage_errors.QueueDoesNotExist):
        one.get_metadata("q", "p")


def test_change_based_on_outdated_metadata_is_refused(
    controllers: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = controllers
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)  # what is cached does not expire
    one.create("q", {"colour": "red"}, project="p")
    cached = other.get_metadata("q", "p")
    one.set_metadata("q", {"colour": "red", "size": 5}, "p")
    with pytest.raises(storage_errors.Conflict):
        other.set_metadata("q", cached | {"colour": "blue"}, "p")
    assert other.get_metadata("q", "p") == {"colour": "red", "size": 5}
    other.set_metadata("q", {"colour": "blue", "size": 5}, "p")
    assert one.get("q", project="p") == {"colour": "blue", "size": 5}


def test_update_after_cached_metadata_expired_is_applied(
    controllers: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = controllers
    one.create("q", {}, project="p")
    other.get_metadata("q", "p")
    one.set_metadata("q", {"colour": "red"}, "p")
    later = time.monotonic() + 10
    monkeypatch.setattr(time, "monotonic", lambda: later)
    other.set_metadata("q", {"colour": "blue"}, "p")
    assert other.get_metadata("q", "p") == {"colour": "blue"}


def test_changing_returned_metadata_does_not_change_the_queue(controllers: tuple[Any, Any]) -> None:
    one, _ = controllers
    one.create("q", {"tags": ["a"]}, project="p")
    one.get_metadata("q", "p")["tags"].append("b")
    assert one.get_metadata("q", "p") == {"tags": ["a"]}


@pytest.mark.parametrize("pooling", [False, True])
def test_metadata_are_stored_in_the_message_store(
    tmp_path: Path, pooling: bool, new_store: NewStore
) -> None:
    with new_store() as store, new_store() as management:
        text = stock.configuration(store.uri, pooling=pooling, management=management.uri)
        storage = crowd.storage(servers.config_file(tmp_path, text))
        storage.queue_controller.create("q", {"colour": "red"}, project="p")
        storage.message_controller.post("q", [{"body": 1, "ttl": 300}], None, project="p")
        assert storage.queue_controller.get("q", project="p") == {"colour": "red"}
        for server, exists in ((store, True), (management, False)):
            with server.client() as client:
                assert bool(client.exists("zr:{p/q}", "zr:{p/q}:messages")) == exists
        storage.close()
