# SPDX-License-Identifier: Apache-2.0
"""What is known of earlier deliveries of messages, by their holds: see lua/shared/hold.lua."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

#: `binary_slice` fails without an end.
_CLAIM_ID, _END = 32, 2**31 - 1
_PARTS = r"(?s)^(?P<count>\d+) ?(?P<first>\d*) ?(?P<reason>.*)$"


def first_claimed(holds: pa.BinaryArray) -> pa.TimestampArray:
    times = part(holds, "first").cast(pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    return times.cast(pa.timestamp("us", tz="UTC"))


def part(holds: pa.BinaryArray, name: str) -> pa.StringArray:
    pasts = pc.binary_slice(holds, _CLAIM_ID, _END).cast(pa.string())
    found = pc.struct_field(pc.extract_regex(pasts, _PARTS), name)
    return pc.if_else(pc.equal(found, ""), None, found)
