# SPDX-License-Identifier: Apache-2.0
"""The JSON and Protobuf definitions of the protocol agree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2
from msgspec import Struct

from tests.conventions.files import ROOT
from zaqar_redis.realtime.protocol import wire

PROTOCOL = ROOT / "zaqar_redis" / "realtime" / "protocol"


def _messages(compiled: bytes) -> dict[str, set[str]]:
    """Returns the names of fields by message."""
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(compiled).file
    return {each.name: {field.name for field in each.field} for each in file.message_type}


def test_compiled_descriptor_matches_proto_file(tmp_path: Path) -> None:
    compiled_file = tmp_path / "client.desc"
    command = [ROOT / "tools" / "protobuf", compiled_file]
    subprocess.run(command, check=True, env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"})
    stored = descriptor_pb2.FileDescriptorSet.FromString((PROTOCOL / "client.desc").read_bytes())
    assert descriptor_pb2.FileDescriptorSet.FromString(compiled_file.read_bytes()) == stored


def test_every_json_field_is_in_the_protobuf_schema() -> None:
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
