# SPDX-License-Identifier: Apache-2.0
"""The file of profiles: names for the services and stores that commands talk to."""

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
    """One of them is there at least."""

    #: of the service
    url: str = ""
    #: of its store; it may have a password in it
    uri: str = ""


class Profiles(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    #: name of the one that is in use
    in_use: str | None = None
    profiles: dict[str, Profile] = {}

    def named(self, name: str) -> Profile:
        """Raises BadConfiguration when there is none."""
        try:
            return self.profiles[name]
        except KeyError:
            there = ", ".join(sorted(self.profiles)) or "none"
            raise errors.BadConfiguration(
                f'there is no profile "{name}" in {path()}; there are: {there}'
            ) from None


def path() -> Path:
    return platformdirs.user_config_path("zaqar-redis") / "profiles.json"


def load() -> Profiles:
    """None when there is no file.  Raises BadConfiguration when it cannot be read."""
    try:
        return msgspec.json.decode(path().read_bytes(), type=Profiles)
    except FileNotFoundError:
        return Profiles()
    except (OSError, msgspec.DecodeError) as error:
        raise errors.BadConfiguration(f"{path()}: {error}") from error


@contextlib.contextmanager
def changed() -> Iterator[Profiles]:
    """What is done to them is in the file afterwards, unless it raises.

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
    """Whole or not at all; for nobody but its owner to read."""
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
