# SPDX-License-Identifier: Apache-2.0
"""Every limit is tested at, below and above its bounds."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from zaqar_redis import errors, metadata_rules, rules

LIMITS = rules.Limits()
LOOSE = rules.Limits(client_id_uuid_safe="off")

RANGES: dict[str, tuple[Callable[[int], object], int, int]] = {
    "message ttl": (lambda value: rules.message_ttl(value, LIMITS), 60, 1_209_600),
    "message delay": (lambda value: rules.message_delay(value, LIMITS), 0, 900),
    "claim ttl": (lambda value: rules.claim_ttl(value, LIMITS), 1, 43_200),
    "claim grace": (lambda value: rules.claim_grace(value, LIMITS), 60, 43_200),
    "limit": (lambda value: rules.limit(value, 20), 1, 20),
    "wait": (lambda value: rules.wait(value, LIMITS), 0, 30),
}
CAN_ENCRYPT = True

METADATA_RANGES = {
    "_max_messages_post_size": (1, 262_144),
    "_default_message_ttl": (60, 1_209_600),
    "_default_message_delay": (0, 900),
    "_dead_letter_queue_messages_ttl": (60, 1_209_600),
    "_max_claim_count": (0, 2**63 - 1),
    "_idempotency_window": (1, 86_400),
    "_min_claim_ttl": (1, 60),
}


@pytest.mark.parametrize("name", RANGES)
def test_range_includes_its_bounds_and_nothing_beyond(name: str) -> None:
    check, least, most = RANGES[name]
    check(least)
    check(most)
    for outside in (least - 1, most + 1, -(10**30), 10**30):
        with pytest.raises(errors.BadRequest, match=f"between {least} and {most}"):
            check(outside)


def test_missing_value_gets_the_default() -> None:
    assert rules.claim_ttl(None, LIMITS) == 300
    assert rules.claim_grace(None, LIMITS) == 60
    assert rules.limit(None, 20) == 10
    assert rules.limit(None, 4) == 4
    assert rules.wait(None, LIMITS) == 0
    rules.message_ttl(None, LIMITS)


@pytest.mark.parametrize("name", ["a", "z" * 64, "a.b", "-", "_", "0", "A-Z_a.z"])
def test_valid_queue_names_are_accepted(name: str) -> None:
    assert rules.queue_name(name) == name


@pytest.mark.parametrize("name", ["", "z" * 65, "a b", "a/b", "é", "a\n", "{a}", "a%", "٣", "a\0"])
def test_invalid_queue_names_are_refused(name: str) -> None:
    with pytest.raises(errors.BadQueue):
        rules.queue_name(name)


def test_project_ids() -> None:
    for project in ("p", "x" * 256, "any {/%} thing"):
        assert rules.project_id(project) == project
    for wrong, error in ((None, errors.MissingProject), ("", errors.EmptyProject)):
        with pytest.raises(error):
            rules.project_id(wrong)
    with pytest.raises(errors.BadQueue):
        rules.project_id("x" * 257)


def test_client_ids_are_uuids_whose_spellings_become_one() -> None:
    client = uuid.uuid4()
    for spelling in (str(client), client.hex, f"{{{client}}}", client.urn, "-" * 99 + client.hex):
        assert rules.client_id(spelling, LIMITS) == str(client)
    for wrong in ("", "x" * 32, str(client)[:-1]):
        with pytest.raises(errors.BadClientId):
            rules.client_id(wrong, LIMITS)
    with pytest.raises(errors.MissingHeader):
        rules.client_id(None, LIMITS)


def test_client_ids_may_be_any_text_within_lengths_when_configured() -> None:
    for length in (10, 36):
        assert rules.client_id("x" * length, LOOSE) == "x" * length
    for length in (9, 37):
        with pytest.raises(errors.BadClientId, match="10 to 36"):
            rules.client_id("x" * length, LOOSE)


def test_idempotency_keys() -> None:
    for key in ("a", "~" * 255, '"quoted"'):
        assert rules.idempotency_key(key) == key
    for key in ("", "a" * 256, "a b", "é", "a\n", "\x7f"):
        with pytest.raises(errors.BadRequest):
            rules.idempotency_key(key)


@pytest.mark.parametrize("name", METADATA_RANGES)
def test_reserved_numbers(name: str) -> None:
    least, most = METADATA_RANGES[name]
    for value in (None, least, most):
        metadata_rules.queue_metadata({name: value}, LIMITS, CAN_ENCRYPT)
    wrong: list[Any] = [least - 1, most + 1, True, 60.0, "60", [], {}]
    for value in wrong:
        with pytest.raises(errors.BadRequest, match=name):
            metadata_rules.queue_metadata({name: value}, LIMITS, CAN_ENCRYPT)


def test_dead_letter_queue_needs_a_valid_queue_name() -> None:
    for name in ("a.b", "", None):  # stock writes an empty text for none
        metadata_rules.queue_metadata({"_dead_letter_queue": name}, LIMITS, CAN_ENCRYPT)
    for value in (5, "a b", "z" * 65, ["a"]):
        with pytest.raises(errors.BadRequest):
            metadata_rules.queue_metadata({"_dead_letter_queue": value}, LIMITS, CAN_ENCRYPT)


def test_encryption_needs_a_configured_key() -> None:
    metadata_rules.queue_metadata({"_enable_encrypt_messages": True}, LIMITS, CAN_ENCRYPT)
    metadata_rules.queue_metadata({"_enable_encrypt_messages": False}, LIMITS, not CAN_ENCRYPT)
    for value, can_seal in ((True, False), (1, True), ("yes", True)):
        with pytest.raises(errors.BadRequest):
            metadata_rules.queue_metadata({"_enable_encrypt_messages": value}, LIMITS, can_seal)
