# SPDX-License-Identifier: Apache-2.0
"""What a request says that has no effect.

API: Zaqar ignores what it does not know, and so does this service, for clients that send more; but
a name that is misspelt looks like one that works.  So the answer names it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from types import GenericAlias
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from zaqar_redis import errors
from zaqar_redis.api import decoding
from zaqar_redis.api.bodies import Body

#: Names in an answer, and characters of one, at most: a header has a bound.
NAMES_MAX, _NAME_MAX = 10, 64

#: The header that names them (RFC 9651: a list of strings).
HEADER = "ignored"


class DocumentReader:
    """Reads the documents of one kind of request."""

    def __init__(self, body: Body, kind: Any = None) -> None:
        """*kind* is in the place of the body's, if it is given."""
        self._body = body
        self._kind = kind or body.kind
        self._lenient = msgspec.json.Decoder(self._kind)
        strict = _strict(self._kind)
        #: reads nearly all: those of which nothing is ignored
        self._strict = self._lenient if strict is None else msgspec.json.Decoder(strict)

    def read(self, data: bytes, ignored: list[str]) -> Any:
        """*ignored* gets the names that have no effect.  Raises BadBody."""
        texts = self._body.texts
        try:
            document = decoding.decode(self._strict, data, texts)
        except errors.BadBody:
            if self._strict is self._lenient:
                raise
            document = decoding.decode(self._lenient, data, texts)
            ignored += _fields(self._kind, data)
        if self._body.ignored is not None:
            ignored += self._body.ignored(getattr(document, "metadata", document))
        return document


@functools.cache  # many routes have the same, and each has two ways
def _strict(kind: Any) -> Any:
    """Returns the kind of document that refuses what *kind* ignores; None: it ignores nothing."""
    of = _struct(kind)
    if of is None or of.__struct_config__.forbid_unknown_fields:
        return None
    fields: list[tuple[str, Any, Any]] = []
    for field in structs.fields(of):
        item = _item(field)
        if item is not None and (inner := _strict(item)) is not None:
            fields.append((field.name, GenericAlias(list, inner) | UnsetType, UNSET))
    return msgspec.defstruct(
        of.__name__, fields, bases=(of,), forbid_unknown_fields=True, module=of.__module__
    )


def _fields(kind: Any, data: bytes | Raw, prefix: str = "") -> Iterator[str]:
    """Yields the names of fields of a document that *kind* does not have."""
    known = {field.encode_name: field for field in structs.fields(_struct(kind))}
    # What is in them may be nested too deeply to be decoded.
    for name, value in msgspec.json.decode(data, type=dict[str, Raw]).items():
        if name not in known:
            yield f"{prefix}{name}"
        elif (item := _item(known[name])) is not None:
            for each in msgspec.json.decode(value, type=list[Raw]):
                yield from _fields(item, each, f"{prefix}{name}[].")


def header(names: Iterable[str]) -> str:
    """Returns the header's value: each name once, and not all if there are many."""
    return ", ".join(map(_item_of_header, shown(names)))


def shown(names: Iterable[str]) -> list[str]:
    return [name[:_NAME_MAX] for name in itertools.islice(dict.fromkeys(names), NAMES_MAX)]


def check(names: Collection[str], *, is_strict: bool) -> None:
    """Raises BadRequest if a service that is strict would ignore some."""
    if names and is_strict:
        found = ", ".join(f'"{name}"' for name in shown(names))
        raise errors.BadRequest(
            why=f"This has no effect: {found}. Correct it, or leave it out; to change what exists "
            "already, use PATCH."
        )


def _item_of_header(name: str) -> str:
    """RFC 9651: a string, or, of other characters than those of ASCII, a display string."""
    if name.isascii() and name.isprintable():
        return re.sub(r'(["\\])', r"\\\1", name).join('""')
    return "%" + "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'%"' else f"%{byte:02x}"
        for byte in name.encode()
    ).join('""')


def _struct(kind: Any) -> Any:
    """Returns the Struct that a type is, or is annotated to be; None: it is none."""
    for each in (kind, *get_args(kind)[:1]):
        if isinstance(each, type) and issubclass(each, Struct):
            return each
    return None


def _item(field: structs.FieldInfo) -> Any:
    """Returns the Struct of which a field has a list; None: it has none."""
    for each in _alternatives(field.type):
        if getattr(each, "__origin__", None) is list and (item := _struct(get_args(each)[0])):
            return item
    return None


def _alternatives(kind: Any) -> Sequence[Any]:
    inner = get_args(kind)
    if hasattr(kind, "__metadata__"):
        return _alternatives(inner[0])
    return inner if inner and getattr(kind, "__origin__", None) is not list else (kind,)
