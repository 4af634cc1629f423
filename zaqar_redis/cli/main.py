# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis``: one command, many subcommands."""

from __future__ import annotations

import itertools
import logging
import os
import sys
from importlib import metadata
from importlib.util import find_spec

from cliff.app import App
from cliff.commandmanager import CommandManager

#: 128 and the number of the signal, SIGINT or SIGPIPE, as cliff has them.
_INTERRUPTED, _NOBODY_READS = 130, 141


class Shell(App):
    def __init__(self) -> None:
        super().__init__(
            description="Queues on Redis: an OpenStack Zaqar v2 service.",
            version=metadata.version("zaqar-redis"),
            command_manager=_commands(),
            deferred_help=True,
        )

    def initialize_app(self, argv: list[str]) -> None:
        # cliff makes "help queue list --limit 3" of "queue list --limit 3 --help", and its
        # command "help" knows no options.
        if argv[:1] == ["help"]:
            argv[:] = itertools.takewhile(lambda word: not word.startswith("-"), argv)

    def configure_logging(self) -> None:
        super().configure_logging()
        logging.getLogger("stevedore").setLevel(logging.ERROR)


def _commands() -> CommandManager:
    commands = CommandManager("zaqar_redis.cli")
    if find_spec("pyspark") is not None:  # the extra spark is there
        commands.add_command_group("zaqar_redis.pipeline")
    return commands


def main(argv: list[str] | None = None) -> int:
    """The exit code; as a shell has it, 130 after Ctrl-C and 141 when nobody reads on."""
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:  # before cliff was ready for it
        code = _INTERRUPTED
    except BrokenPipeError:
        # Python writes out what is left once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _NOBODY_READS
    if code == _INTERRUPTED:
        print("\ninterrupted", file=sys.stderr)  # a terminal has just written ^C
    return code


def _run(arguments: list[str]) -> int:
    try:
        return int(Shell().run(arguments or ["--help"]))
    finally:
        print(end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
