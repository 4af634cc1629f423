# SPDX-License-Identifier: Apache-2.0
"""Message ids contain the epoch of their queue, and malformed ids are recognised."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaqar_redis.storage.redis import identity

EPOCHS = st.integers(0, 2**64 - 1).map(lambda number: f"{number:016x}")


@given(epoch=EPOCHS, rank=st.integers(1, 2**63 - 1))
def test_message_id_is_a_uuid_of_epoch_and_rank(epoch: str, rank: int) -> None:
    text = identity.message_id(identity.prefix(epoch), rank)
    assert identity.parse_message_id(text) == (epoch, rank)
    assert str(uuid.UUID(text)) == text


@given(epoch=EPOCHS, ranks=st.tuples(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1)))
def test_message_ids_of_one_epoch_sort_by_rank(epoch: str, ranks: tuple[int, int]) -> None:
    one, other = (identity.message_id(identity.prefix(epoch), rank) for rank in ranks)
    assert (one < other) == (ranks[0] < ranks[1])


@given(text=st.text(max_size=50))
def test_malformed_message_id_parses_to_unknown_id(text: str) -> None:
    assert identity.parse_message_id(text) == identity.UNKNOWN_ID


@given(st.uuids())
def test_message_id_in_other_uuid_spellings_parses_to_unknown_id(one: uuid.UUID) -> None:
    assert identity.parse_message_id(one.hex) == identity.UNKNOWN_ID
    assert identity.parse_message_id(f"{{{one}}}") == identity.UNKNOWN_ID
    assert identity.parse_message_id(str(one) + "\n") == identity.UNKNOWN_ID
    if str(one) != str(one).upper():
        assert identity.parse_message_id(str(one).upper()) == identity.UNKNOWN_ID


def test_epoch_of_unknown_id_is_never_a_real_epoch() -> None:
    epoch, _ = identity.UNKNOWN_ID
    assert len(epoch) != len(identity.new_epoch())


@given(st.uuids())
def test_claim_id_is_parsed_in_any_spelling(claim: uuid.UUID) -> None:
    for spelling in (claim.hex, str(claim), str(claim).upper()):
        assert identity.parse_claim(spelling) == claim.hex


@pytest.mark.parametrize(
    "text", ["", "0", "0" * 31, "0" * 33, "g" * 32, "0" * 31 + "\n", "\u0660" * 32]
)
def test_malformed_claim_id_parses_to_none(text: str) -> None:
    assert identity.parse_claim(text) is None


def test_new_epochs_and_claim_ids_are_distinct() -> None:
    assert len({identity.new_epoch() for _ in range(1000)}) == 1000
    claims = {identity.new_claim() for _ in range(1000)}
    assert len(claims) == 1000
    assert all(identity.parse_claim(claim) == claim for claim in claims)
