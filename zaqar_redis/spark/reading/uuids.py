# SPDX-License-Identifier: Apache-2.0
"""Formats UUIDs of 16 bytes as text, for whole columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_LENGTH = 36
#: Two bytes, as a number of this machine, to their four digits.
_DIGITS = np.frombuffer(np.arange(2**16, dtype=np.uint16).tobytes().hex().encode(), "V4")
#: Offset in the text of the digits of each two bytes.
_POSITIONS = (0, 4, 9, 14, 19, 24, 28, 32)
_TEXT = np.dtype(
    {
        "names": [str(number) for number in range(8)],
        "formats": ["V4"] * 8,
        "offsets": list(_POSITIONS),
        "itemsize": _LENGTH,
    }
)


def texts(raw: NDArray[np.void]) -> pa.StringArray:
    """Returns UUIDs in lower case, from an array of 16 bytes each."""
    return _written(b"00000000-0000-0000-0000-000000000000", _pairs(raw, 8), 0)


def with_numbers(prefix: str, numbers: NDArray[np.int64]) -> pa.StringArray:
    """Returns UUIDs that begin with these 19 characters and end with a number."""
    template = f"{prefix}0000-000000000000".encode()
    return _written(template, _pairs(numbers.astype(">i8"), 4), 4)


def _pairs(values: NDArray[np.generic], count: int) -> NDArray[np.uint16]:
    return np.ascontiguousarray(values).view(np.uint16).reshape(-1, count)


def _written(template: bytes, pairs: NDArray[np.uint16], first: int) -> pa.StringArray:
    count = len(pairs)
    texts = np.frombuffer(bytearray(template * count), _TEXT)
    digits = _DIGITS.take(pairs)
    for group in range(first, 8):
        texts[str(group)] = digits[:, group - first]
    offsets = np.arange(0, _LENGTH * (count + 1), _LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))
