# SPDX-License-Identifier: Apache-2.0
"""The file of profiles: named services and stores for commands."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import platformdirs

from zaqar_redis import errors


class Profile(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A service, its store, or both."""

    #: of the service
    url: str = ""
    #: of its store; it may contain a password
    uri: str = ""


class Profiles(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    #: name of the profile in use
    in_use: str | None = None
    profiles: dict[str, Profile] = {}

    def lookup(self, name: str) -> Profile:
        """Returns a profile.  Raises BadConfiguration when it does not exist."""
        try:
            return self.profiles[name]
        except KeyError:
            existing = ", ".join(sorted(self.profiles)) or "none"
            raise errors.BadConfiguration(
                f'there is no profile "{name}" in {path()}; there are: {existing}'
            ) from None


def path() -> Path:
    return platformdirs.user_config_path("zaqar-redis") / "profiles.json"


def load() -> Profiles:
    """Returns no profiles when there is no file.

    Raises BadConfiguration when the file cannot be read.
    """
    try:
        return msgspec.json.decode(path().read_bytes(), type=Profiles)
    except FileNotFoundError:
        return Profiles()
    except (OSError, msgspec.DecodeError) as error:
        raise errors.BadConfiguration(f"{path()}: {error}") from error


@contextlib.contextmanager
def locked_for_update() -> Iterator[Profiles]:
    """Yields the profiles; writes the changes to the file, unless the block raises.

    Raises BadConfiguration when the file cannot be read or written.
    """
    folder = path().parent
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise errors.BadConfiguration(f"{folder}: {error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another command may change them too
        profiles = load()
        yield profiles
        _write(msgspec.json.format(msgspec.json.encode(profiles)))
    finally:
        os.close(lock)


def _write(content: bytes) -> None:
    """Writes the file atomically, readable by its owner only."""
    try:
        number, name = tempfile.mkstemp(dir=path().parent, prefix=".profiles-")
    except OSError as error:
        raise errors.BadConfiguration(f"{path()}: {error}") from error
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content + b"\n")
        Path(name).replace(path())
    except OSError as error:
        Path(name).unlink()
        raise errors.BadConfiguration(f"{path()}: {error}") from error
