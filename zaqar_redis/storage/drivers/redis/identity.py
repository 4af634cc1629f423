# SPDX-License-Identifier: Apache-2.0
"""Message ids: the queue's epoch and the message's rank, laid out as a UUID.

A marker needs no lookup and outlives the message it names, and an id of another
queue, or of an earlier life of the queue, is known for what it is.
"""

from __future__ import annotations

import os

from zaqar_redis import rules

#: An epoch that no queue has, and a rank: what an id that we never gave parses to.
NOWHERE = ("none", 0)


def new_epoch() -> str:
    """16 hexadecimal digits, unlike any queue's before."""
    return os.urandom(8).hex()


def new_claim() -> str:
    """32 hexadecimal digits: a UUID without dashes, not to be guessed."""
    return os.urandom(16).hex()


def prefix(epoch: str) -> str:
    """What all ids of an epoch begin with."""
    return f"{epoch[:8]}-{epoch[8:12]}-{epoch[12:]}-"


def message_id(prefix: str, rank: int) -> str:
    return f"{prefix}{rank >> 48:04x}-{rank & 0xFFFFFFFFFFFF:012x}"


def parse(text: str) -> tuple[str, int]:
    """Epoch and rank of an id, NOWHERE for what is none."""
    if not rules.is_message_id(text):
        return NOWHERE
    digits = text.replace("-", "")
    return digits[:16], int(digits[16:], 16)


def parse_claim(text: str) -> str | None:
    """The claim id as stored: any spelling of its UUID is understood."""
    digits = text.replace("-", "").lower()
    return digits if rules.is_claim_id(digits) else None
