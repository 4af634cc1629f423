# SPDX-License-Identifier: Apache-2.0
"""What a backup file consists of, and how it is encoded: see doc/backup.md.

A file is `MAGIC`, then frames: the length of a record, its CRC-32, and the record in msgpack.
Each queue is a `BackupQueue`, its `BackupChunk`s, and a `BackupQueueEnd`.
"""

from __future__ import annotations

import struct
import zlib

import msgspec

from zaqar_redis.auth.access_keys import AccessKey
from zaqar_redis.pool_records import TransferChunk
from zaqar_redis.records import Quota

MAGIC = b"zaqar-redis backup\n"
#: Grows when older versions could not restore what this one writes, e.g. a new kind of chunk.
#: 2: the order of a queue.  3: schedules.
FORMAT_VERSION = 3
#: Big-endian: bytes of the record, and their CRC-32.
FRAME_HEAD = struct.Struct(">II")
#: Most bytes of a record: Redis takes no longer request (client-query-buffer-limit).
FRAME_MAX = 1024**3


class BackupHeader(msgspec.Struct, frozen=True, tag="header"):
    """The first record."""

    version: int
    #: milliseconds
    created: int
    #: the URI of the store, without a password
    store: str


class BackupQueue(msgspec.Struct, frozen=True, tag="queue"):
    """Begins a queue, or a topic, by the name that it has in stores."""

    project: str
    queue: str
    #: milliseconds
    created: int
    flavor: str = ""


class BackupChunk(msgspec.Struct, frozen=True, tag="chunk"):
    """A part of the queue, as its driver exported it."""

    chunk: TransferChunk


class BackupQueueEnd(msgspec.Struct, frozen=True, tag="end"):
    """Ends a queue that is complete."""

    messages: int
    chunks: int


class BackupQueueAbandoned(msgspec.Struct, frozen=True, tag="abandoned"):
    """Ends a queue that is not complete: nothing of it may be restored."""

    why: str


class BackupQuota(msgspec.Struct, frozen=True, tag="quota"):
    project: str
    quota: Quota


class BackupAccessKey(msgspec.Struct, frozen=True, tag="access_key"):
    key: AccessKey


class BackupSchedule(msgspec.Struct, frozen=True, tag="schedule"):
    project: str
    name: str
    #: a `Schedule`, as it is stored: an encrypted body stays so
    definition: bytes


class BackupTrailer(msgspec.Struct, frozen=True, tag="trailer"):
    """The last record: the file is complete."""

    #: that are complete
    queues: int


BackupRecord = (
    BackupHeader
    | BackupQueue
    | BackupChunk
    | BackupQueueEnd
    | BackupQueueAbandoned
    | BackupQuota
    | BackupAccessKey
    | BackupSchedule
    | BackupTrailer
)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[BackupRecord] = msgspec.msgpack.Decoder(BackupRecord)


def frame(record: BackupRecord) -> bytes:
    """Returns a record as it is written."""
    encoded = _ENCODER.encode(record)
    return FRAME_HEAD.pack(len(encoded), zlib.crc32(encoded)) + encoded


def decoded(encoded: bytes) -> BackupRecord:
    """Raises msgspec.DecodeError."""
    return _DECODER.decode(encoded)
