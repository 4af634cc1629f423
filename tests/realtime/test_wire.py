# SPDX-License-Identifier: Apache-2.0
"""Both formats of the wire say the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2
from msgspec import Struct

from tests.house.files import ROOT
from zaqar_redis.realtime import wire

PROTOCOL = ROOT / "zaqar_redis" / "realtime" / "protocol"


def _messages(compiled: bytes) -> dict[str, set[str]]:
    """Fields by message."""
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(compiled).file
    return {each.name: {field.name for field in each.field} for each in file.message_type}


def test_what_is_compiled_is_what_is_defined(tmp_path: Path) -> None:
    made = tmp_path / "client.desc"
    command = [ROOT / "tools" / "protobuf", made]
    subprocess.run(command, check=True, env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"})
    kept = descriptor_pb2.FileDescriptorSet.FromString((PROTOCOL / "client.desc").read_bytes())
    assert descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()) == kept


def test_every_field_is_in_both_formats() -> None:
    defined = _messages((PROTOCOL / "client.desc").read_bytes())
    structs = [
        each
        for each in vars(wire).values()
        if isinstance(each, type) and issubclass(each, Struct) and each.__struct_fields__
    ]
    missing = {
        each.__name__: names
        for each in structs
        if (names := set(each.__struct_fields__) - defined.get(each.__name__, set()))
    }
    assert missing == {}
