# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis``: one command, many subcommands."""

from __future__ import annotations

import logging
import sys
from importlib import metadata

from cliff.app import App
from cliff.commandmanager import CommandManager


class Shell(App):
    def __init__(self) -> None:
        super().__init__(
            description="Queues on Redis: an OpenStack Zaqar v2 service.",
            version=metadata.version("zaqar-redis"),
            command_manager=CommandManager("zaqar_redis.cli"),
            deferred_help=True,
        )

    def configure_logging(self) -> None:
        super().configure_logging()
        logging.getLogger("stevedore").setLevel(logging.ERROR)


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    return int(Shell().run(arguments or ["--help"]))


if __name__ == "__main__":
    sys.exit(main())
