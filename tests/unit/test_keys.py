# SPDX-License-Identifier: Apache-2.0
"""No two queues share a key, whatever the texts that name them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from redis.crc import key_slot

from zaqar_redis.keyspace.keys import ProjectKeys, QueueKeys, due_indexes, project_of, retry

#: Mostly characters that mean something in keys, hash tags and percent-encoding.
TEXTS = st.text(
    st.one_of(st.sampled_from("{}/%.:-_~ab0127BDF*?[]\\ \n\0é☃"), st.characters(codec="utf-8")),
    max_size=12,
)
PLACES = st.tuples(TEXTS, TEXTS)


def _keys(project: str, queue: str) -> list[bytes]:
    """All but the index of what is due, which is many queues'."""
    keys = QueueKeys(project, queue)
    return [getattr(keys, slot) for slot in QueueKeys.__slots__ if slot != "due"]


def _tag(key: bytes) -> bytes:
    """The part that Redis Cluster hashes."""
    start = key.find(b"{")
    end = key.find(b"}", start + 1)
    return key[start + 1 : end] if start >= 0 and end > start + 1 else key


@given(one=PLACES, other=PLACES)
@example(one=("a", "b/c"), other=("a/b", "c"))
@example(one=("a}", "{b"), other=("a", "}{b"))
@example(one=("a%2Fb", "c"), other=("a/b", "c"))
@example(one=("", "a"), other=("a", ""))
@example(one=("a", "b:messages"), other=("a", "b"))
def test_two_queues_share_no_key(one: tuple[str, str], other: tuple[str, str]) -> None:
    if one != other:
        assert not {*_keys(*one)} & {*_keys(*other)}
        assert _tag(QueueKeys(*one).queue) != _tag(QueueKeys(*other).queue)


@given(place=PLACES)
def test_a_queues_keys_are_distinct_and_of_one_slot(place: tuple[str, str]) -> None:
    keys = _keys(*place)
    assert len(set(keys)) == len(keys)
    assert len({_tag(key) for key in keys}) == 1
    assert all(key.count(b"{") == 1 for key in keys)
    for slot in set(QueueKeys.__slots__) - {"due", "unborn"}:  # the scripts cut its name out
        assert getattr(QueueKeys(*place), slot).startswith(b"zr:{"), slot


@given(place=PLACES)
def test_a_queue_and_the_index_of_what_is_due_are_of_one_slot(place: tuple[str, str]) -> None:
    keys = QueueKeys(*place)
    assert key_slot(keys.due) == key_slot(keys.queue)


def test_every_slot_has_an_index_of_its_own() -> None:
    assert [key_slot(index) for index in due_indexes()] == list(range(16384))


@given(place=PLACES, project=TEXTS)
def test_a_projects_list_is_no_queues_key(place: tuple[str, str], project: str) -> None:
    assert ProjectKeys(project).queues not in _keys(*place)


@given(project=TEXTS)
def test_a_project_is_known_by_its_list(project: str) -> None:
    assert project_of(ProjectKeys(project).queues) == project


@given(one=st.text(max_size=30), other=st.text(max_size=30))
def test_two_idempotency_keys_have_two_names(one: str, other: str) -> None:
    assert (retry(one) == retry(other)) == (one == other)
