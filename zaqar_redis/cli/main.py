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

#: 128 plus the number of the signal, SIGINT or SIGPIPE, as in cliff.
_INTERRUPTED, _BROKEN_PIPE = 130, 141


class ZaqarRedisShell(App):
    def __init__(self) -> None:
        super().__init__(
            description="Queues on Redis: an OpenStack Zaqar v2 service.",
            version=metadata.version("zaqar-redis"),
            command_manager=_commands(),
            deferred_help=True,
        )

    def initialize_app(self, argv: list[str]) -> None:
        # cliff turns "queue list --limit 3 --help" into "help queue list --limit 3", but its
        # command "help" takes no options.
        if argv[:1] == ["help"]:
            argv[:] = itertools.takewhile(lambda word: not word.startswith("-"), argv)

    def configure_logging(self) -> None:
        super().configure_logging()
        logging.getLogger("stevedore").setLevel(logging.ERROR)


class _LazyCommands(CommandManager):
    """Imports only the command that runs; the base class imports all of them at each start."""

    def load_commands(self, namespace: str) -> None:
        self.group_list.append(namespace)
        for entry_point in metadata.entry_points(group=namespace):
            self.commands[entry_point.name.replace("_", " ")] = entry_point


def _commands() -> CommandManager:
    commands = _LazyCommands("zaqar_redis.cli")
    if find_spec("pyspark") is not None:  # the extra spark is installed
        commands.add_command_group("zaqar_redis.pipeline")
    return commands


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code; as in a shell, 130 after Ctrl-C, 141 when the output is closed."""
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:  # before cliff handles it
        code = _INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout once more when it exits, and would print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _BROKEN_PIPE
    if code == _INTERRUPTED:
        print("\ninterrupted", file=sys.stderr)  # on a new line: the terminal has echoed ^C
    return code


def _run(arguments: list[str]) -> int:
    try:
        return int(ZaqarRedisShell().run(arguments or ["--help"]))
    finally:
        print(end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
