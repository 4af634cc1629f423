# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis profile …``: named services and stores for commands."""

from __future__ import annotations

import argparse

from cliff.lister import Lister
from cliff.show import ShowOne

from zaqar_redis import errors
from zaqar_redis.cli import profile_file, target
from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import Row, ShellCommand, Table, arg, one_of, resource_name, takes
from zaqar_redis.keyspace import embedded
from zaqar_redis.keyspace.uris import redact_password
from zaqar_redis.storage.load import load


def _store_uri(text: str) -> str:
    """Checks an argument that is the URI of a store, without connecting to it."""
    try:
        load(embedded.DataDirectory(text).uri if text.startswith("embedded:") else text, {})
    except errors.BadConfiguration as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


class ProfileCommand(ShellCommand):
    arguments = takes(arg("name", type=resource_name, help="name of the profile"))


class CreateProfile(ProfileCommand):
    """Create a named profile of a service, its store, or both, or replace it.

    Commands for queues, pools and channels call the profile's service, or without one work on
    the store directly; check, sweep, backup, restore, import-stock, pipeline and key need the
    store. Only its owner can read the file, because a URI may contain a password. Example:

        zaqar-redis profile create prod --url https://queues.example.org --use
    """

    arguments = takes(
        arg("--url", type=target.service_url, help="address of the service"),
        arg("--storage", type=_store_uri, metavar="URI", help="its store"),
        arg("--use", action="store_true", help="use it from now on"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if not (parsed_args.url or parsed_args.storage):
            raise CommandFailed("a profile needs a service, a store or both: --url, --storage")
        profile = profile_file.Profile(url=parsed_args.url or "", uri=parsed_args.storage or "")
        with profile_file.locked_for_update() as profiles:
            profiles.profiles[parsed_args.name] = profile
            if parsed_args.use:
                profiles.in_use = parsed_args.name
        self.app.stdout.write(f"{parsed_args.name}\n")


class ListProfile(ShellCommand, Lister):
    """List profiles, without passwords, and mark the one in use.

    Example: zaqar-redis profile list
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        found = profile_file.load()
        return ("name", "in_use", "service", "store"), [
            (name, name == found.in_use, redact_password(profile.url), redact_password(profile.uri))
            for name, profile in sorted(found.profiles.items())
        ]


class ShowProfile(ShellCommand, ShowOne):
    """Show the target of commands without target options, and where it is configured.

    The first of these decides: the variables ZAQAR_REDIS_URL and ZAQAR_REDIS_URI, the profile
    in use, [storage] uri of the configuration, and the service of this machine. Example:

        zaqar-redis profile show
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        nothing = argparse.Namespace()
        return ("in_use", "file", "commands", "store_commands"), (
            profile_file.load().in_use or "",
            str(profile_file.path()),
            str(target.resolve(nothing)),
            _store(nothing),
        )


class UseProfile(ShellCommand):
    """Use a profile, or none, from now on in all commands without target options.

    Example: zaqar-redis profile use prod
    """

    arguments = takes(
        one_of(
            arg("name", nargs="?", type=resource_name, help="name of the profile"),
            arg("--none", action="store_true", help="use no profile"),
            required=True,
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with profile_file.locked_for_update() as profiles:
            if parsed_args.name:
                profiles.lookup(parsed_args.name)
            profiles.in_use = parsed_args.name


class DeleteProfile(ProfileCommand):
    """Remove a profile; if it is in use, no profile is used from now on.

    Example: zaqar-redis profile delete prod
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with profile_file.locked_for_update() as profiles:
            profiles.lookup(parsed_args.name)
            del profiles.profiles[parsed_args.name]
            if profiles.in_use == parsed_args.name:
                profiles.in_use = None


def _store(nothing: argparse.Namespace) -> str:
    try:
        return str(target.resolve(nothing, store_only=True))
    except errors.BadConfiguration as error:
        return str(error)
