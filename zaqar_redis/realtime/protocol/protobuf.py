# SPDX-License-Identifier: Apache-2.0
"""Frames in Protobuf: each message is preceded by its length.

Messages are converted here from and to `wire`, field by field: both have the same names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from io import BytesIO
from types import NoneType
from typing import Any, cast, get_args, get_origin, get_type_hints

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, proto
from google.protobuf.message import DecodeError, Message
from msgspec import Raw, Struct

from zaqar_redis.realtime.protocol.wire import Binary, Command, EmulationRequest, Reply

Convert = Callable[[Any], Any]


def _classes() -> dict[str, type[Message]]:
    """Returns the class of every message, by name."""
    compiled = resources.files(__package__).joinpath("client.desc").read_bytes()
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(compiled).file
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        each.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{file.package}.{each.name}")
        )
        for each in file.message_type
    }


_CLASSES = _classes()


class ProtobufCodec:
    binary = True

    def decode(self, frame: bytes) -> list[Command]:
        source = BytesIO(frame)
        commands = []
        try:
            while source.tell() < len(frame):
                message = proto.parse_length_prefixed(_CLASSES["Command"], source)
                if message is not None:
                    commands.append(_read(Command, message))
        except DecodeError as error:
            raise ValueError(str(error)) from error
        if not commands:
            raise ValueError("an empty frame")
        return commands

    def encode(self, reply: Reply) -> bytes:
        message = _CLASSES["Reply"]()
        _write(reply, message)
        out = BytesIO()
        proto.serialize_length_prefixed(message, out)
        return out.getvalue()

    def frame(self, replies: Sequence[bytes]) -> bytes:
        return b"".join(replies)

    def decode_emulation(self, body: bytes) -> EmulationRequest:
        """Raises ValueError."""
        try:
            message = _CLASSES["EmulationRequest"].FromString(body)
        except DecodeError as error:
            raise ValueError(str(error)) from error
        return cast(EmulationRequest, _read(EmulationRequest, message))


PROTOBUF = ProtobufCodec()


def _read(kind: type[Struct], message: Message) -> Any:
    readers = _readers(kind)
    return kind(**{field.name: readers[field.name](value) for field, value in message.ListFields()})


@functools.cache
def _readers(kind: type[Struct]) -> Mapping[str, Convert]:
    hints = get_type_hints(kind)
    return {name: _reader(hints[name]) for name in kind.__struct_fields__}


def _reader(hint: Any) -> Convert:
    arguments = [each for each in get_args(hint) if each is not NoneType]
    if hint is Raw:
        return Raw
    if get_origin(hint) is list:
        item = _reader(arguments[0])
        return lambda given: [item(each) for each in given]
    if len(arguments) == 1 and _is_struct(arguments[0]):  # or None
        return functools.partial(_read, arguments[0])
    if _is_struct(hint):
        return functools.partial(_read, hint)
    if len(arguments) == 2:
        item = _reader(arguments[1])
        return lambda given: {key: item(value) for key, value in given.items()}
    return lambda given: given


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Struct)


def _write(given: Struct, message: Any) -> None:
    for name in given.__struct_fields__:
        value = getattr(given, name)
        if isinstance(value, Struct):
            part = getattr(message, name)
            part.SetInParent()  # present, though it may be empty
            _write(value, part)
        elif isinstance(value, (Raw, Binary)):
            if bytes(value):
                setattr(message, name, bytes(value))
        elif isinstance(value, list):
            for each in value:
                _write(cast(Struct, each), getattr(message, name).add())
        elif isinstance(value, dict):
            _write_map(value, getattr(message, name))
        elif value:
            setattr(message, name, value)


def _write_map(given: Mapping[str, Any], into: Any) -> None:
    for key, value in given.items():
        if isinstance(value, Struct):
            into.get_or_create(key)
            _write(value, into[key])
        else:
            into[key] = value
