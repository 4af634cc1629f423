# SPDX-License-Identifier: Apache-2.0
"""Bases of commands: the options that name a target, types of arguments, columns of output."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from cliff.command import Command

from zaqar_redis import rules
from zaqar_redis.cli import target
from zaqar_redis.cli.api import ApiClient, CommandFailed, Missing, open_api, print_warning
from zaqar_redis.cli.target import Needs

if TYPE_CHECKING:
    from tqdm import tqdm

#: Variable of the environment: what the service authenticates its user by.
TOKEN_VARIABLE = "ZAQAR_REDIS_TOKEN"  # noqa: S105  # a name
#: Variable of the environment: by what the certificate of a service is checked.
CA_FILE_VARIABLE = "ZAQAR_REDIS_CA_FILE"

Opened = TypeVar("Opened")
Row = tuple[Any, ...]
#: Names of columns, and the rows.
Table = tuple[Row, Iterable[Row]]


#: Exit code of a command that has done, or shown, a part of what was asked for.
INCOMPLETE = 5

#: Adds an argument of a command to its parser, or to a group there.
Argument = Callable[[Any, argparse._ActionsContainer], object]


def arg(*names: str, **how: Any) -> Argument:
    """Returns an argument with the parameters of `ArgumentParser.add_argument`."""
    return lambda command, parser: parser.add_argument(*names, **how)


def one_of(*arguments: Argument, required: bool = False) -> Argument:
    """Returns arguments of which only one may be given."""

    def add(command: Any, parser: argparse._ActionsContainer) -> None:
        group = parser.add_mutually_exclusive_group(required=required)
        for each in arguments:
            each(command, group)

    return add


def takes(*arguments: Argument) -> Sequence[Argument]:
    """Returns the arguments of a command."""
    return arguments


class ShellCommand(Command):
    """Base of all commands; their descriptions are printed line by line."""

    #: those that it adds to those of its bases
    arguments: ClassVar[Sequence[Argument]] = ()
    #: of a command that neither fails nor is interrupted
    exit_code = 0

    def get_epilog(self) -> str:
        # cliff's reads the metadata of all installed packages, to tell which one has the command.
        return ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        for kind in reversed(type(self).__mro__):
            for add in vars(kind).get("arguments", ()):
                add(self, parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._parsed = parsed_args
        with contextlib.ExitStack() as self._opened:
            return int(super().run(parsed_args)) or self.exit_code

    def until_end(self, context: contextlib.AbstractContextManager[Opened]) -> Opened:
        """Returns what a context yields; it is closed when the output is printed."""
        return self._opened.enter_context(context)


class TargetCommand(ShellCommand):
    """Base of the commands that work on a store or, unless *store_only*, a service."""

    store_only = True
    arguments = takes(lambda command, parser: command.target_options(parser))

    def target_options(self, parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
        """Adds the options that name the target; returns their group."""
        target_options = parser.add_argument_group("target")
        one = target_options.add_mutually_exclusive_group()
        if not self.store_only:
            one.add_argument(
                "--url",
                type=target.service_url,
                help=f"a service, e.g. http://127.0.0.1:8888 ({target.URL_VARIABLE})",
            )
        one.add_argument(
            "--storage",
            metavar="URI",
            help=f"{'the store' if self.store_only else 'or the store itself'} "
            f"({target.URI_VARIABLE})",
        )
        one.add_argument(
            "--profile", metavar="NAME", help="that of a profile (default: the profile in use)"
        )
        target_options.add_argument(
            "--config-file",
            action="append",
            metavar="FILE",
            help="configuration file, which may name the store",
        )
        return target_options

    def needs_target(self, parsed: argparse.Namespace) -> bool:
        """Returns whether the command needs a target with these arguments."""
        return True

    def run(self, parsed_args: argparse.Namespace) -> int:
        if self.needs_target(parsed_args):
            self.target = target.resolve(parsed_args, store_only=self.store_only)
            self.print_target(parsed_args)
        return super().run(parsed_args)

    def print_target(self, parsed: argparse.Namespace) -> None:
        """Prints the target, unless it is on the command line."""
        self.print_notice(f"at {self.target}", verbosity=2 if self.target.is_explicit else 1)

    def print_notice(self, text: str, *, verbosity: int) -> None:
        """Prints a line to standard error; -q sets the verbosity to 0, -v to 2."""
        if self.app.options.verbose_level >= verbosity:
            print_warning(text)

    def progress(self, doing: str, unit: str, **how: Any) -> tqdm[Any]:
        """Returns the display of long work, on standard error; -q leaves it out."""
        from tqdm import tqdm

        is_quiet = self.app.options.verbose_level < 1
        # It may take long to the next one: the display is updated when it is told to.
        return tqdm(desc=doing, unit=unit, miniters=0, disable=is_quiet, **how)

    @contextlib.contextmanager
    def noticing(self, consequence: str) -> Iterator[None]:
        """What is missing is no failure of the command, which says so."""
        try:
            yield
        except Missing as missing:
            self.print_notice(f"{consequence}: {missing}", verbosity=1)

    def warn_incomplete(self, text: str) -> None:
        """Says what was not done, or is not shown, and sets the exit code."""
        print_warning(text)
        self.exit_code = INCOMPLETE


#: ``--project``: a list, empty for all projects.
PROJECTS = arg(
    "--project",
    action="append",
    default=[],
    metavar="PROJECT",
    help="only this project's queues; may be given more than once (all)",
)


class ApiCommand(TargetCommand):
    """Base of the commands that call the API, of a service or over a store."""

    store_only = False
    needs = Needs.QUEUES

    def target_options(self, parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
        target_options = super().target_options(parser)
        target_options.add_argument(
            "--project",
            type=header_value,
            help="project of the queues and channels (the token's; without a token, default)",
        )
        target_options.add_argument(
            "--token",
            type=header_value,
            default=os.environ.get(TOKEN_VARIABLE, ""),
            help=f"access key or token for the service ({TOKEN_VARIABLE})",
        )
        target_options.add_argument(
            "--ca-file",
            default=os.environ.get(CA_FILE_VARIABLE, ""),
            metavar="FILE",
            help="authorities that sign the certificate of an https service "
            f"({CA_FILE_VARIABLE}; the system's)",
        )
        target_options.add_argument(
            "--client-id",
            type=header_value,
            default=str(uuid.uuid4()),
            metavar="UUID",
            help="sent as Client-ID (a random one)",
        )
        return target_options

    @functools.cached_property
    def api(self) -> ApiClient:
        """The client of the target, opened when it is used first."""
        return self.until_end(open_api(self._parsed, self.target, self.needs))


class DestructiveCommand(TargetCommand):
    """Base of the commands that ask for confirmation."""

    #: the question names the project: two projects may have queues of the same name
    is_of_project = False
    arguments = takes(arg("--yes", action="store_true", help="do not ask"))

    def print_target(self, parsed: argparse.Namespace) -> None:
        if parsed.yes:  # else the question names the target
            self.print_notice(f"at {self.target}", verbosity=1)

    def confirm(self, parsed: argparse.Namespace, what: str) -> None:
        """Raises CommandFailed unless the user confirms, at the prompt or by ``--yes``."""
        if parsed.yes:
            return
        of = f" of the project {parsed.project}" if self.is_of_project and parsed.project else ""
        question = f"{what}{of} at {self.target}?"
        if not sys.stdin.isatty():
            raise CommandFailed(f"{question} Confirm with --yes.")
        if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
            raise CommandFailed("Nothing was done.")


@dataclass(frozen=True)
class Column:
    """A column of what commands print, from a field of the API's documents."""

    name: str
    #: the field; the column's name unless given
    field: str = ""
    #: makes lists and objects a text, for formats without these
    as_text: Callable[[Any], str] | None = None


def json_text(value: object, indent: int | None = None) -> str:
    """Returns JSON for people: with its letters, and what does not print as escapes.

    A body may have characters that a terminal obeys, or that turn the direction of a line.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isascii():
        return text
    return "".join(each if _is_shown(each) else json.dumps(each)[1:-1] for each in text)


def _is_shown(character: str) -> bool:
    if not (character.isprintable() or character in "\n\u3000\xa0"):
        return False
    try:
        character.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


#: A name stands for a column that is named like its field.
Columns = Sequence[Column | str]


def table(
    columns: Columns, documents: Iterable[dict[str, Any]], parsed: argparse.Namespace
) -> Table:
    """Returns the names of the columns, and a row for each document as it comes."""
    shown = [Column(each) if isinstance(each, str) else each for each in columns]
    structured = parsed.formatter in ("json", "yaml")  # the formats with lists and objects

    def cell(column: Column, document: dict[str, Any]) -> Any:
        value = document.get(field := column.field or column.name)
        if structured or column.as_text is None or field not in document:
            return value
        return column.as_text(value)

    rows = (tuple(cell(column, document) for column in shown) for document in documents)
    return tuple(column.name for column in shown), rows


def single(
    columns: Columns, document: dict[str, Any], parsed: argparse.Namespace
) -> tuple[Row, Row]:
    """Returns the names of the columns, and the row of one document."""
    names, [row] = table(columns, [document], parsed)
    return names, row


def given(parsed: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Returns those of the arguments that were given."""
    found = {name: getattr(parsed, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def bounded_int(least: int, most: int) -> Callable[[str], int]:
    """Returns an argparse type for integers from *least* to *most*, both included."""

    def number(given: str) -> int:
        if not least <= int(given) <= most:
            raise argparse.ArgumentTypeError(f"it must be {least} to {most}")
        return int(given)

    return number


def brief_progress(doing: str, unit: str) -> tqdm[Any]:
    """Returns the display, on a terminal, of what is mostly done at once; it disappears."""
    from tqdm import tqdm

    return tqdm(unit=unit, desc=doing, leave=False, delay=1, disable=None)


def check_folder(option: str, file: Path | None) -> None:
    """Raises CommandFailed when a file that is to be written plainly cannot be."""
    if file is None:
        return
    folder = file.absolute().parent
    if not folder.is_dir():
        raise CommandFailed(f"{option} {file}: there is no folder {folder}")
    if file.is_dir():
        raise CommandFailed(f"{option} {file}: that is a folder; name a file")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise CommandFailed(f"{option} {file}: you may not write there")


def header_value(text: str) -> str:
    """Checks an argument that is sent as a header.  HTTP has Latin-1 for what is not ASCII."""
    try:
        sent = text.encode("latin-1")
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError(
            f"headers of HTTP have ASCII and Latin-1 only, and {text[error.start]!r} is neither"
        ) from error
    if text != text.strip() or any(byte < 32 or byte == 127 for byte in sent):
        raise argparse.ArgumentTypeError(
            "headers of HTTP have no control characters, and no spaces at their ends"
        )
    return text


def json_object(text: str) -> dict[str, Any]:
    """Parses an argument that is a JSON object."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("it must be a JSON object")
    return found


def resource_name(text: str) -> str:
    """Checks an argument that names a queue, a pool or a flavor."""
    if not rules.is_queue_name(text):
        raise argparse.ArgumentTypeError(
            f"a name has 1 to {rules.QUEUE_NAME_MAX} ASCII letters, digits, underscores, "
            "dashes and dots"
        )
    if text in (".", ".."):
        raise argparse.ArgumentTypeError(f'"{text}" cannot be a name: URLs cannot contain it')
    return text
