# SPDX-License-Identifier: Apache-2.0
"""Attributes of messages as a column: a map of names to what each is.

Numbers are JSON text, as no number of Spark holds both 64 bits without a sign and floating
point; so what was read can be written again without loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, MapType, StringType, StructField, StructType

from zaqar_redis import errors, message_fields, rules
from zaqar_redis.records import Attributes

SPARK = MapType(
    StringType(),
    StructType(
        [
            StructField("string", StringType()),
            StructField("number", StringType()),
            StructField("binary", BinaryType()),
        ]
    ),
)
#: Names to strings, for writers whose attributes are nothing else.
SPARK_STRINGS = MapType(StringType(), StringType())
_KINDS = pa.struct([("string", pa.string()), ("number", pa.string()), ("binary", pa.binary())])
ARROW = pa.map_(pa.string(), _KINDS)

#: Columns of fields, and the attributes that hold them, in the order in which rows have them.
FIELDS = {
    "group": message_fields.GROUP,
    "priority": message_fields.PRIORITY,
    "content_type": message_fields.CONTENT_TYPE,
    "body_encoding": message_fields.BODY_ENCODING,
}
#: With what only readers have: Spark's writes know no duplicates.
READ_FIELDS = {**FIELDS, "dedup_id": message_fields.DEDUP_ID, "reason": message_fields.REASON}
NO_FIELDS = (None,) * len(FIELDS)

_number = msgspec.json.Decoder(int | float).decode


def field_column(found: Iterable[Attributes | None], name: str) -> pa.Array:
    """Returns one of `READ_FIELDS`; null: it has none, or one that an older release allowed."""
    values = [(attributes or {}).get(READ_FIELDS[name]) for attributes in found]
    if name == "priority":
        known = range(message_fields.PRIORITY_MAX + 1)
        return pa.array([each if each in known else None for each in values], pa.int32())
    return pa.array([each if isinstance(each, str) else None for each in values], pa.string())


def column(found: Iterable[Attributes | None]) -> pa.MapArray:
    """Returns the column of some messages; None, null: it has no attributes."""
    offsets: list[int] = []
    names: list[str] = []
    values: list[str | int | float | bytes] = []
    absent = []
    for attributes in found:
        offsets.append(len(names))
        absent.append(attributes is None)
        if attributes is not None:
            names += attributes
            values += attributes.values()
    offsets.append(len(names))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        pa.array(names, pa.string()),
        _kinds(values),
        mask=pa.array(np.array(absent, np.bool_)),
    )


def _kinds(values: Sequence[str | int | float | bytes]) -> pa.StructArray:
    strings = [value if isinstance(value, str) else None for value in values]
    numbers = [repr(value) if isinstance(value, (int, float)) else None for value in values]
    binaries = [value if isinstance(value, bytes) else None for value in values]
    columns = zip((strings, numbers, binaries), _KINDS, strict=True)
    arrays = [pa.array(each, field.type) for each, field in columns]
    return pa.StructArray.from_arrays(arrays, fields=list(_KINDS))


def given(
    pairs: Sequence[tuple[str, str | dict[str, Any] | None]] | None,
    fields: Sequence[str | int | None] = NO_FIELDS,
    body: bytes | None = None,
) -> Attributes | None:
    """Returns the attributes of a row: pairs of name and string, or of name and kinds.

    *fields*: values of `FIELDS`, which count more.  *body*: None: it is encrypted, or was checked.
    Raises ValueError when they, or the body with them, break the rules of messages.
    """
    if not pairs and fields == NO_FIELDS:
        return None
    attributes = {name: _value(name, value) for name, value in pairs or ()}
    names = zip(FIELDS.values(), fields, strict=True)
    attributes |= {name: value for name, value in names if value is not None}
    try:
        rules.message_attributes(attributes)
        if body is not None:
            message_fields.decoded(attributes, body)
    except errors.BadRequest as error:
        raise ValueError(error.text) from error
    return attributes


def _value(name: str, value: str | dict[str, Any] | None) -> str | int | float | bytes:
    if isinstance(value, str):
        return value
    present: dict[str, Any] = {
        kind: each for kind, each in (value or {}).items() if each is not None
    }
    if len(present) != 1:
        raise ValueError(f'"attributes": {name!r} must have one of string, number and binary')
    ((kind, found),) = present.items()
    return _parsed(name, found) if kind == "number" else found


def _parsed(name: str, text: str) -> int | float:
    try:
        number: int | float = _number(text)
    except msgspec.DecodeError as error:
        raise ValueError(
            f'"attributes": {name!r} has {text!r}, which is no number of JSON'
        ) from error
    return number
