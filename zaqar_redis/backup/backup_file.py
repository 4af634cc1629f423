# SPDX-License-Identifier: Apache-2.0
"""Backup files: written beside their name until they are complete, and read up to a damage."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from zaqar_redis import clock
from zaqar_redis.backup.backup_records import (
    FORMAT_VERSION,
    FRAME_HEAD,
    FRAME_MAX,
    MAGIC,
    BackupHeader,
    BackupRecord,
    BackupTrailer,
    decoded,
    frame,
)

#: By which a reader recognises gzip, whatever the file's name.
_GZIP_MAGIC = b"\x1f\x8b"
#: Level 1 compresses 100 MB a second and more: a frozen queue does not wait for a smaller file.
_GZIP_LEVEL = 1


class BackupFileError(Exception):
    """The file cannot be written or read; the text says which, and why."""


class BackupDamaged(Exception):
    """The file is damaged or incomplete from here on; the text says why."""


class BackupWriter:
    """Writes the records of a file that `writing` has opened."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        #: of records, before compression
        self.bytes_written = 0

    def write(self, record: BackupRecord) -> None:
        """Raises BackupFileError."""
        data = frame(record)
        try:
            self._file.write(data)
        except OSError as error:
            raise _cannot_write(self._path, error) from error
        self.bytes_written += len(data)


@contextlib.contextmanager
def writing(path: Path, store: str) -> Iterator[BackupWriter]:
    """Yields a writer of a new file, which is named when all is on disk.

    Until then it is FILE.part; after an error there is none.  A name that ends with .gz makes it
    gzip.  Raises BackupFileError, also when the file exists or another process writes it.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with _opened(path, part) as raw, _removed_after_error(part):
            with _compressed(raw, path) as file:
                file.write(MAGIC)
                writer = BackupWriter(file, path)
                writer.write(BackupHeader(FORMAT_VERSION, clock.process(), store))
                yield writer
            raw.flush()
            os.fsync(raw.fileno())
            _check_absent(path)
            part.rename(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _opened(path: Path, part: Path) -> IO[bytes]:
    """Opens the unfinished file, without what a process that was killed left in it."""
    _check_absent(path)
    # Bodies are nobody else's to read: not through a file or link that was there before, either.
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    file = os.fdopen(descriptor, "wb")
    try:
        os.fchmod(descriptor, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _check_absent(path)  # another process may just have finished it
        file.truncate()
    except BlockingIOError as error:
        file.close()
        raise BackupFileError(f"{part} is being written by another process") from error
    except BaseException:
        file.close()
        raise
    return file


def _compressed(raw: IO[bytes], path: Path) -> contextlib.AbstractContextManager[IO[bytes]]:
    if path.suffix != ".gz":
        return contextlib.nullcontext(raw)
    compressed: Any = gzip.GzipFile("", "wb", _GZIP_LEVEL, raw)
    return contextlib.closing(compressed)


@contextlib.contextmanager
def _removed_after_error(part: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        part.unlink()
        raise


def _check_absent(path: Path) -> None:
    if path.exists():
        raise BackupFileError(f"{path} exists, and is not overwritten: name another file")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(path: Path, error: OSError) -> BackupFileError:
    return BackupFileError(f"{path} cannot be written: {error.strerror or error}")


class BackupReader:
    """Reads a file from its beginning."""

    def __init__(self, raw: IO[bytes], file: IO[bytes]) -> None:
        self._raw = raw
        self._file = file
        #: bytes of the file
        self.size = os.fstat(raw.fileno()).st_size

    def position(self) -> int:
        """Returns how many bytes of the file have been read."""
        return self._raw.tell()

    def read(self) -> BackupRecord:
        """Returns the next record; the last one is a `BackupTrailer`.  Raises BackupDamaged."""
        try:
            record = decoded(self._frame())
            if isinstance(record, BackupTrailer) and self._file.read(1):
                raise BackupDamaged("more follows its last record")
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise BackupDamaged(f"its compression ends or is damaged ({error})") from error
        except msgspec.MsgspecError as error:
            raise BackupDamaged(f"a record is unknown ({error})") from error
        return record

    def _frame(self) -> bytes:
        length, checksum = FRAME_HEAD.unpack(self._exactly(FRAME_HEAD.size))
        if length > FRAME_MAX:
            raise BackupDamaged("the length of a record is damaged")
        encoded = self._exactly(length)
        if zlib.crc32(encoded) != checksum:
            raise BackupDamaged("the checksum of a record is wrong")
        return encoded

    def _exactly(self, size: int) -> bytes:
        # A damaged length must not take more memory than the file has bytes.
        found = self._file.read(size)
        if len(found) < size:
            raise BackupDamaged("it ends too early: it is truncated")
        return found


@contextlib.contextmanager
def reading(path: Path) -> Iterator[tuple[BackupHeader, BackupReader]]:
    """Yields the header of a file, and a reader of what follows.

    Raises BackupFileError when it is no backup, or of a newer format.
    """
    try:
        with path.open("rb") as raw:
            is_gzip = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            raw.seek(0)
            file: Any = gzip.GzipFile(fileobj=raw) if is_gzip else raw
            reader = BackupReader(raw, file)
            yield _header(path, file, reader), reader
    except OSError as error:
        raise BackupFileError(f"{path} cannot be read: {error.strerror or error}") from error


def _header(path: Path, file: IO[bytes], reader: BackupReader) -> BackupHeader:
    try:
        header = reader.read() if file.read(len(MAGIC)) == MAGIC else None
    except (gzip.BadGzipFile, EOFError, zlib.error, BackupDamaged):
        header = None
    if not isinstance(header, BackupHeader):
        raise BackupFileError(f"{path} is not a backup of zaqar-redis, or its beginning is damaged")
    if header.version > FORMAT_VERSION:
        raise BackupFileError(
            f"{path} has format {header.version}; this version of zaqar-redis reads up to "
            f"{FORMAT_VERSION}: restore with a newer one"
        )
    return header
