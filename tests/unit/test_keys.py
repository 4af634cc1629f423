# SPDX-License-Identifier: Apache-2.0
"""No two queues share a key, whatever their names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redis.crc import key_slot

from tests.support.stores import OWN_KEYS
from zaqar_redis.keyspace import slot_indexes
from zaqar_redis.keyspace.keys import (
    ProjectKeys,
    QueueKeys,
    idempotency_key,
    is_service_key,
    lists_topics,
    project_of,
    queue_tag,
    written,
)

#: Mostly characters with a meaning in keys, hash tags and percent-encoding.
TEXTS = st.text(
    st.one_of(st.sampled_from("{}/%.:-_~ab0127BDF*?[]\\ \n\0é☃"), st.characters(codec="utf-8")),
    max_size=12,
)
QUEUES = st.tuples(TEXTS, TEXTS)


def _keys(project: str, queue: str) -> list[bytes]:
    """Returns all keys of a queue but the indexes, which queues share."""
    keys = QueueKeys(project, queue)
    return [getattr(keys, slot) for slot in OWN_KEYS]


def _tag(key: bytes) -> bytes:
    """Returns the part that Redis Cluster hashes."""
    start = key.find(b"{")
    end = key.find(b"}", start + 1)
    return key[start + 1 : end] if start >= 0 and end > start + 1 else key


@given(one=QUEUES, other=QUEUES)
@example(one=("a", "b/c"), other=("a/b", "c"))
@example(one=("a}", "{b"), other=("a", "}{b"))
@example(one=("a%2Fb", "c"), other=("a/b", "c"))
@example(one=("", "a"), other=("a", ""))
@example(one=("a", "b:messages"), other=("a", "b"))
def test_two_queues_share_no_key(one: tuple[str, str], other: tuple[str, str]) -> None:
    if one != other:
        assert not {*_keys(*one)} & {*_keys(*other)}
        assert _tag(QueueKeys(*one).queue) != _tag(QueueKeys(*other).queue)


@given(queue=QUEUES)
def test_keys_of_a_queue_are_distinct_and_in_one_slot(queue: tuple[str, str]) -> None:
    keys = _keys(*queue)
    assert len(set(keys)) == len(keys)
    assert len({_tag(key) for key in keys}) == 1
    assert all(key.count(b"{") == 1 for key in keys)
    for slot in set(OWN_KEYS) - {"reserved_epoch"}:  # the scripts cut its name out
        assert getattr(QueueKeys(*queue), slot).startswith(b"zr:{"), slot


@given(queue=QUEUES)
def test_queue_and_its_indexes_are_in_one_slot(queue: tuple[str, str]) -> None:
    keys = QueueKeys(*queue)
    assert key_slot(keys.sweep_index) == key_slot(keys.queue)
    assert key_slot(keys.delivery_index) == key_slot(keys.queue)


@given(queue=QUEUES)
def test_what_is_written_behind_changes_of_a_queue_is_in_its_slot(queue: tuple[str, str]) -> None:
    for key in _keys(*queue):
        beside = written(key)
        assert key_slot(beside) == key_slot(key)
        assert queue_tag(beside) is None
        assert is_service_key(beside)


@pytest.mark.parametrize("indexes", [slot_indexes.of_sweeps(), slot_indexes.of_deliveries()])
def test_every_slot_has_its_own_index(indexes: Sequence[bytes]) -> None:
    assert [key_slot(index) for index in indexes] == list(range(16384))


@given(queue=QUEUES, project=TEXTS)
def test_list_of_a_project_is_no_key_of_a_queue(queue: tuple[str, str], project: str) -> None:
    assert not {ProjectKeys(project).queues, ProjectKeys(project).topics} & {*_keys(*queue)}


@given(project=TEXTS)
def test_project_is_read_from_the_key_of_its_list(project: str) -> None:
    of_project = ProjectKeys(project)
    assert project_of(of_project.queues) == project_of(of_project.topics) == project
    assert lists_topics(of_project.topics)
    assert not lists_topics(of_project.queues)


@given(one=st.text(max_size=30), other=st.text(max_size=30))
def test_distinct_idempotency_keys_have_distinct_record_names(one: str, other: str) -> None:
    assert (idempotency_key(one) == idempotency_key(other)) == (one == other)
