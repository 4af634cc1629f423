# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis profile …``: names for the services and stores that commands talk to."""

from __future__ import annotations

import argparse
from typing import Any

from cliff.command import Command
from cliff.lister import Lister
from cliff.show import ShowOne

from zaqar_redis import errors
from zaqar_redis.cli import profile_file, target
from zaqar_redis.cli.session import Refused, name_of
from zaqar_redis.keyspace import embedded
from zaqar_redis.keyspace.client import printable
from zaqar_redis.storage.load import load

Row = tuple[Any, ...]


class OfProfiles(Command):
    """Base of the commands for profiles."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        return parser


class OfProfile(OfProfiles):
    """Base of the commands for one profile."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", type=name_of, help="of the profile")
        return parser


class ProfileCreate(OfProfile):
    """Give a service, its store, or both a name; replaces a profile of this name.

    Commands for queues, pools and channels ask the service if the profile has one, and
    work straight at the store else; check, sweep, import-stock and pipeline need the
    store. The file is for its owner alone to read: a URI may have a password. Example:

        zaqar-redis profile create prod --url https://queues.example.org --use
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--url", type=target.service_url, help="of the service")
        parser.add_argument("--storage", type=_store_uri, metavar="URI", help="of its store")
        parser.add_argument("--use", action="store_true", help="use it from now on")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if not (parsed_args.url or parsed_args.storage):
            raise Refused("a profile has a service, a store or both: give --url, --storage")
        made = profile_file.Profile(url=parsed_args.url or "", uri=parsed_args.storage or "")
        with profile_file.changed() as profiles:
            profiles.profiles[parsed_args.name] = made
            if parsed_args.use:
                profiles.in_use = parsed_args.name
        self.app.stdout.write(f"{parsed_args.name}\n")


class ProfileList(OfProfiles, Lister):
    """List profiles, and which one is in use; without passwords.

    Example: zaqar-redis profile list
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, list[Row]]:
        found = profile_file.load()
        return ("name", "in_use", "service", "store"), [
            (name, name == found.in_use, printable(profile.url), printable(profile.uri))
            for name, profile in sorted(found.profiles.items())
        ]


class ProfileShow(OfProfiles, ShowOne):
    """Show what commands talk to that are not told where, and what says so.

    The first of these counts: the variables ZAQAR_REDIS_URL and ZAQAR_REDIS_URI, the profile
    in use, [storage] uri of the configuration, and the service of this machine. Example:

        zaqar-redis profile show
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        nothing = argparse.Namespace()
        return ("in_use", "file", "commands", "store_commands"), (
            profile_file.load().in_use or "",
            str(profile_file.path()),
            str(target.find(nothing)),
            _store(nothing),
        )


class ProfileUse(OfProfiles):
    """Use a profile from now on, in all commands that are not told where; or none.

    Example: zaqar-redis profile use prod
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        one = parser.add_mutually_exclusive_group(required=True)
        one.add_argument("name", nargs="?", type=name_of, help="of the profile")
        one.add_argument("--none", action="store_true", help="use no profile")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with profile_file.changed() as profiles:
            if parsed_args.name:
                profiles.named(parsed_args.name)
            profiles.in_use = parsed_args.name


class ProfileDelete(OfProfile):
    """Remove a profile; if it is in use, none is from now on.

    Example: zaqar-redis profile delete prod
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with profile_file.changed() as profiles:
            profiles.named(parsed_args.name)
            del profiles.profiles[parsed_args.name]
            if profiles.in_use == parsed_args.name:
                profiles.in_use = None


def _store_uri(text: str) -> str:
    """For an argument that is the URI of a store; nothing is asked of that."""
    try:
        load(embedded.Place(text).uri if text.startswith("embedded:") else text, {})
    except errors.BadConfiguration as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _store(nothing: argparse.Namespace) -> str:
    try:
        return str(target.find(nothing, store_only=True))
    except errors.BadConfiguration as error:
        return str(error)
