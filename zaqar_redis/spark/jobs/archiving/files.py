# SPDX-License-Identifier: Apache-2.0
"""Files of an archive, in whatever file system Hadoop knows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from zaqar_redis import errors

#: Folder of the books: readers of Parquet pass over names that begin with "_".
BOOKS = "_zaqar"


@dataclass(frozen=True)
class Found:
    """A file; *name* is its path below the archive."""

    name: str
    size: int


class Files:
    """Everything below one folder; names are paths below it.

    Raises BadConfiguration when the folder's file system is unknown, and what Hadoop
    raises (Py4JJavaError) when it does not do what is asked.
    """

    def __init__(self, spark: SparkSession, target: str) -> None:
        # What pyspark has for its own sources; there is no other way to Hadoop's files.
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
        """The folder on this machine; None: it is elsewhere."""
        uri = self._root.toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None

    def at(self, name: str) -> str:
        """The whole path, as Spark takes it."""
        return str(self._path(name).toString())

    def below(self, uri: str) -> str:
        """The name of a file that Spark names by its URI."""
        return unquote(urlsplit(uri).path)[len(self._base) + 1 :]

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root.rstrip('/')}/{name}".rstrip("/"))

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """Names of what a folder holds, in order; none when there is no such folder."""
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        return sorted(str(each.getPath().getName()) for each in self._system.listStatus(path))

    def numbers(self, folder: str) -> list[int]:
        """Of the records in a folder that have a number for a name, in order."""
        names = (name.removesuffix(".json") for name in self.names(folder))
        return sorted(int(name) for name in names if name.isdecimal())

    def listed(self, folder: str) -> list[Found]:
        """All files in a folder and below, but for hidden ones, in order of their names."""
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        start = len(self.root.rstrip("/")) + 1
        found, files = [], self._system.listFiles(path, True)
        while files.hasNext():
            status = files.next()
            name = str(status.getPath().toString())[start:]
            if not name.rpartition("/")[2].startswith(("_", ".")):
                found.append(Found(name, int(status.getLen())))
        return sorted(found, key=lambda each: each.name)

    def move(self, source: str, to: str) -> None:
        """Move a file, unless it was moved already.  Raises FileNotFoundError: neither is there."""
        if not self.exists(to):
            if not self.exists(source):
                raise FileNotFoundError(
                    f"{self.at(source)} is gone, and {self.at(to)} is not there"
                )
            self._system.mkdirs(self._path(to).getParent())
            if not self._system.rename(self._path(source), self._path(to)):
                raise OSError(f"{self.at(source)} cannot be moved to {self.at(to)}")

    def remove(self, name: str) -> None:
        """Remove a file or a whole folder, if it is there."""
        self._system.delete(self._path(name), True)

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Write down a record.  Cut off by a crash, it is as if it were not there."""
        out = self._system.create(self._path(name), True)
        try:
            out.write(json.dumps(record, indent=1).encode())
        finally:
            out.close()

    def read(self, name: str) -> dict[str, Any] | None:
        """The record; None: there is none, or none that was finished."""
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
