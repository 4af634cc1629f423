# SPDX-License-Identifier: Apache-2.0
"""Files of an archive, in any file system that Hadoop supports."""

from __future__ import annotations

import json
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from zaqar_redis import errors

#: Folder of the transaction log: readers of Parquet skip names that begin with "_".
LOG_FOLDER = "_zaqar"


class HadoopFolder:
    """Everything below one folder; names are paths below it.

    Raises BadConfiguration when the folder's file system is unknown, and what Hadoop
    raises (Py4JJavaError) when an operation fails.
    """

    def __init__(self, spark: SparkSession, target: str) -> None:
        # Internal to pyspark, but there is no other way to Hadoop's file systems.
        self._jvm = cast(Any, spark._jvm)
        configuration: Any = spark._jsc.hadoopConfiguration()
        try:
            path = self._jvm.org.apache.hadoop.fs.Path(target)
            self._system: Any = path.getFileSystem(configuration)
            self._root: Any = self._system.makeQualified(path)
        except Py4JJavaError as error:
            raise errors.BadConfiguration(
                f'TARGET "{target}": {error.java_exception.getMessage()}'
            ) from error
        self._base = str(self._root.toUri().getPath()).rstrip("/")

    @property
    def root(self) -> str:
        return str(self._root.toString())

    @property
    def local(self) -> str | None:
        """Path of the folder on this machine; None: it is in another file system."""
        uri = self._root.toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None

    def at(self, name: str) -> str:
        """Returns the full path, as Spark takes it."""
        return str(self._path(name).toString())

    def below(self, uri: str) -> str:
        """Returns the name of a file from its URI."""
        return unquote(urlsplit(uri).path)[len(self._base) + 1 :]

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root.rstrip('/')}/{name}".rstrip("/"))

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """Returns the sorted names in a folder; empty when it does not exist."""
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        return sorted(str(each.getPath().getName()) for each in self._system.listStatus(path))

    def numbers(self, folder: str) -> list[int]:
        """Returns the sorted numbers of the records in a folder that are named by a number."""
        names = (name.removesuffix(".json") for name in self.names(folder))
        return sorted(int(name) for name in names if name.isdecimal())

    def move(self, source: str, to: str) -> None:
        """Moves a file, unless it was moved.  Raises FileNotFoundError if neither exists."""
        if not self.exists(to):
            if not self.exists(source):
                raise FileNotFoundError(
                    f"{self.at(source)} is gone, and {self.at(to)} does not exist"
                )
            self._system.mkdirs(self._path(to).getParent())
            if not self._system.rename(self._path(source), self._path(to)):
                raise OSError(f"{self.at(source)} cannot be moved to {self.at(to)}")

    def can_have(self, folder: str) -> bool:
        """Returns whether such a folder can be made; it is left, with those above it."""
        try:
            return bool(self._system.mkdirs(self._path(folder)))
        except Py4JJavaError:
            return False

    def remove(self, name: str) -> None:
        """Removes a file or a whole folder, if it exists."""
        self._system.delete(self._path(name), True)

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Writes a record.  One that a crash cut off counts as missing."""
        self.write_text(name, json.dumps(record, indent=1))

    def write_text(self, name: str, text: str) -> None:
        out = self._system.create(self._path(name), True)
        try:
            out.write(text.encode())
        finally:
            out.close()

    def read(self, name: str) -> dict[str, Any] | None:
        """Returns the record; None: it does not exist, or was not finished."""
        if not self.exists(name):
            return None
        try:
            record: dict[str, Any] = json.loads(self._content(name))
        except ValueError:
            return None
        except Py4JJavaError as error:
            # On local disks, Hadoop's checksum of it may have been cut off as well; and a
            # record may have been removed since.
            kind = error.java_exception.getClass().getName()
            if kind.endswith(("ChecksumException", "FileNotFoundException")):
                return None
            raise
        return record

    def _content(self, name: str) -> bytes:
        stream = self._system.open(self._path(name))
        try:
            return bytes(self._jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(stream))
        finally:
            stream.close()
