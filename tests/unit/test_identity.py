# SPDX-License-Identifier: Apache-2.0
"""Ids say which life of which queue they belong to, and nothing else passes for one."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaqar_redis.storage.drivers.redis import identity

EPOCHS = st.integers(0, 2**64 - 1).map(lambda number: f"{number:016x}")


@given(epoch=EPOCHS, rank=st.integers(1, 2**63 - 1))
def test_an_id_says_epoch_and_rank_and_is_a_uuid(epoch: str, rank: int) -> None:
    text = identity.message_id(identity.prefix(epoch), rank)
    assert identity.parse(text) == (epoch, rank)
    assert str(uuid.UUID(text)) == text


@given(epoch=EPOCHS, ranks=st.tuples(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1)))
def test_ids_of_one_life_sort_as_their_ranks(epoch: str, ranks: tuple[int, int]) -> None:
    one, other = (identity.message_id(identity.prefix(epoch), rank) for rank in ranks)
    assert (one < other) == (ranks[0] < ranks[1])


@given(text=st.text(max_size=50))
def test_other_text_is_nowhere(text: str) -> None:
    assert identity.parse(text) == identity.NOWHERE


@given(st.uuids())
def test_one_spelling_only_is_an_id(one: uuid.UUID) -> None:
    assert identity.parse(one.hex) == identity.NOWHERE
    assert identity.parse(f"{{{one}}}") == identity.NOWHERE
    assert identity.parse(str(one) + "\n") == identity.NOWHERE
    if str(one) != str(one).upper():
        assert identity.parse(str(one).upper()) == identity.NOWHERE


def test_no_queue_is_nowhere() -> None:
    epoch, _ = identity.NOWHERE
    assert len(epoch) != len(identity.new_epoch())


@given(st.uuids())
def test_a_claim_is_known_by_any_spelling(claim: uuid.UUID) -> None:
    for spelling in (claim.hex, str(claim), str(claim).upper()):
        assert identity.parse_claim(spelling) == claim.hex


@pytest.mark.parametrize(
    "text", ["", "0", "0" * 31, "0" * 33, "g" * 32, "0" * 31 + "\n", "\u0660" * 32]
)
def test_other_text_is_no_claim(text: str) -> None:
    assert identity.parse_claim(text) is None


def test_epochs_and_claims_are_new_every_time() -> None:
    assert len({identity.new_epoch() for _ in range(1000)}) == 1000
    claims = {identity.new_claim() for _ in range(1000)}
    assert len(claims) == 1000
    assert all(identity.parse_claim(claim) == claim for claim in claims)
