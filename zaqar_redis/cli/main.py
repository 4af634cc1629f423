# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis``: one command, many subcommands."""

from __future__ import annotations

import argparse
import ast
import itertools
import logging
import os
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from io import TextIOWrapper

import autopage.argparse
from cliff.app import App
from cliff.commandmanager import CommandManager
from cliff.help import HelpCommand, HelpExit

#: With the version and the commands.  Only its metadata is read, not that of all packages.
_PACKAGE = metadata.distribution("zaqar-redis")

#: 128 plus the number of the signal, SIGINT or SIGPIPE, as in cliff.
_INTERRUPTED, _BROKEN_PIPE = 130, 141


class ZaqarRedisShell(App):
    def __init__(self) -> None:
        super().__init__(
            description="Queues on Redis: an OpenStack Zaqar v2 service.",
            version=_PACKAGE.version,
            command_manager=_commands(),
            deferred_help=True,
        )
        self.command_manager.add_command("help", _Help)

    def initialize_app(self, argv: list[str]) -> None:
        # cliff turns "queue list --limit 3 --help" into "help queue list --limit 3", but its
        # command "help" takes no options.
        if argv[:1] == ["help"]:
            argv[:] = itertools.takewhile(lambda word: not word.startswith("-"), argv)
        if argv and argv[0].startswith("-"):
            option = argv[0].partition("=")[0]
            self.parser.error(f"{option} goes behind the command: zaqar-redis queue list {option}")

    def configure_logging(self) -> None:
        super().configure_logging()
        logging.getLogger("stevedore").setLevel(logging.ERROR)

    def print_help_if_requested(self) -> None:
        if self.options.deferred_help:
            _print_help(self)
            raise HelpExit


class _Help(HelpCommand):
    """Show the help of a command, or list all commands."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.cmd:
            return int(super().take_action(parsed_args))
        _print_help(self.app)
        return 0


def _print_help(app: App) -> None:
    """Prints the options and all commands, without importing these."""
    with autopage.argparse.help_pager(app.stdout) as out:
        app.parser.print_help(out)
        out.write("\nCommands:\n")
        for name, line in sorted(_summaries(app.command_manager)):
            out.write(f"  {name:<20}  {line}\n")


def _summaries(commands: CommandManager) -> Iterator[tuple[str, str]]:
    """Yields each command, and the first line of its docstring."""
    found: dict[str, dict[str, str]] = {}
    for name, entry_point in commands:
        module, _, kind = entry_point.value.partition(":")
        if module not in found:
            found[module] = _class_summaries(module)
        yield name, found[module][kind]


def _class_summaries(module: str) -> dict[str, str]:
    """Returns the first lines of the docstrings of a module's classes."""
    spec = find_spec(module)
    source = spec.loader.get_source(module)  # type: ignore[union-attr]  # of a module with source
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    return {
        each.name: (ast.get_docstring(each) or "").partition("\n")[0].rstrip(".")
        for each in classes
    }


class _LazyCommands(CommandManager):
    """Imports only the command that runs; the base class imports all of them at each start."""

    def load_commands(self, namespace: str) -> None:
        self.group_list.append(namespace)
        for entry_point in _PACKAGE.entry_points.select(group=namespace):
            self.commands[entry_point.name.replace("_", " ")] = entry_point


def _commands() -> CommandManager:
    commands = _LazyCommands("zaqar_redis.cli")
    if find_spec("pyspark") is not None:  # the extra spark is installed
        commands.add_command_group("zaqar_redis.pipeline")
    if find_spec("zaqar_redis_client") is not None:
        commands.add_command_group("zaqar_redis.worker")
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
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal may lack the letters of a body
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return int(ZaqarRedisShell().run(arguments or ["--help"]))
    finally:
        print(end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
