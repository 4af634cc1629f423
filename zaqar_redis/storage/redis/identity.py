# SPDX-License-Identifier: Apache-2.0
"""Message ids: the queue's epoch and the message's rank, laid out as a UUID.

A marker needs no lookup and outlives the message it names, and an id of another
queue, or of an earlier epoch of the queue, is recognised as such.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from zaqar_redis import rules

#: UTF-8 has none of the bytes from 245 on: they stand for digits and the space.
_STORED, _GIVEN = bytes(range(245, 256)), b"0123456789 "
_TO_STORED = bytes.maketrans(_GIVEN, _STORED)
_FROM_STORED = bytes.maketrans(_STORED, _GIVEN)
#: An epoch that no queue has, and a rank: what an invalid id is parsed to.
UNKNOWN_ID = ("none", 0)


def new_epoch() -> str:
    """Returns 16 random hexadecimal digits: unlike any other queue's epoch."""
    return os.urandom(8).hex()


def new_claim() -> str:
    """Returns 32 random hexadecimal digits: a UUID without dashes, not to be guessed."""
    return os.urandom(16).hex()


def prefix(epoch: str) -> str:
    """Returns the prefix of all message ids of an epoch."""
    return f"{epoch[:8]}-{epoch[8:12]}-{epoch[12:]}-"


def message_id(prefix: str, rank: int) -> str:
    # Twice as fast as an f-string.
    return "%s%04x-%012x" % (prefix, rank >> 48, rank & 0xFFFFFFFFFFFF)  # noqa: UP031


def message_ids(epoch: str, ranks: Iterable[int]) -> tuple[str, ...]:
    of_epoch = prefix(epoch)
    return tuple([message_id(of_epoch, rank) for rank in ranks])


def parse_message_id(text: str) -> tuple[str, int]:
    """Returns epoch and rank of an id; `UNKNOWN_ID` when the text is no id."""
    if not rules.is_message_id(text):
        return UNKNOWN_ID
    digits = text.replace("-", "")
    return digits[:16], int(digits[16:], 16)


def pairs(texts: Iterable[str]) -> list[str | int]:
    """Returns epoch and rank of each id, in a row."""
    return [part for text in texts for part in parse_message_id(text)]


def parse_claim(text: str) -> str | None:
    """Returns the claim id as stored, from any spelling of its UUID; None: it is no UUID."""
    digits = text.replace("-", "").lower()
    return digits if rules.is_claim_id(digits) else None


def stored_client(client: str) -> bytes:
    """Returns a Client-ID as the record of a claim has it.

    Scripts, those of older versions too, find ranks in a record as decimal digits between spaces.
    """
    return client.encode().translate(_TO_STORED)


def given_client(stored: bytes) -> str:
    """Returns the Client-ID as it was given to `stored_client`."""
    return stored.translate(_FROM_STORED).decode()
