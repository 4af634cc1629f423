# SPDX-License-Identifier: Apache-2.0
"""Writes each Lua script as Redis gets it, with its shared parts, into a folder for luacheck."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

from zaqar_redis import keyspace
from zaqar_redis.keyspace.script import Script


def main(folder: Path) -> None:
    for file in resources.files(keyspace).joinpath("lua").iterdir():
        if file.name.endswith(".lua"):
            (folder / file.name).write_text(Script(file.name.removesuffix(".lua")).source)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
