# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis key …``: access keys, in the store."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import itertools
import re
from collections.abc import Awaitable, Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import msgspec
from cliff.show import ShowOne

from zaqar_redis import clock, errors, rules
from zaqar_redis import conf as configuration
from zaqar_redis.auth import access_keys, policy
from zaqar_redis.auth.access_keys import AccessKey, AccessKeys, AccessKeySettings, SecretSeal
from zaqar_redis.auth.audit import AuditLog
from zaqar_redis.auth.identity import ADMIN, MEMBER, NONE, READER, Identity, Right, with_implied
from zaqar_redis.cli import service_factory
from zaqar_redis.cli.api import CommandFailed
from zaqar_redis.cli.base import (
    Column,
    DestructiveCommand,
    Row,
    Table,
    TargetCommand,
    arg,
    one_of,
    single,
    table,
    takes,
)
from zaqar_redis.cli.paged_lists import PagedListCommand
from zaqar_redis.cli.stores import open_access_keys, operator
from zaqar_redis.runner import Runner

T = TypeVar("T")

#: Keys that are read at once.
_PAGE_SIZE = 500
_QUEUE_GLOB = re.compile(r"(?:[A-Za-z0-9_.*?-]|\[!?[A-Za-z0-9_.-]+\])+")
_DURATION = re.compile(r"(\d{1,4})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_COLUMNS = (
    "id",
    "project",
    "user",
    Column("roles", as_text=" ".join),
    Column("rights", as_text=lambda rights: " ".join(map(_right_text, rights))),
    "created",
    "expires",
    "disabled",
    "last_used",
)


def parse_right(text: str) -> Right:
    """Parses ``QUEUES:ACTION[,ACTION]`` or ``topic:TOPICS:ACTION[,ACTION]``.

    An action has a colon, too: ``topic:messages:create`` is about a queue of that name.  Raises
    ArgumentTypeError.
    """
    is_of_topics = text.startswith(rules.TOPIC_PREFIX) and text.partition(",")[0].count(":") == 3
    prefix = rules.TOPIC_PREFIX if is_of_topics else ""
    queues, _, actions = text.removeprefix(prefix).partition(":")
    if len(queues) > rules.QUEUE_NAME_MAX or not _QUEUE_GLOB.fullmatch(queues):
        raise argparse.ArgumentTypeError(
            f'"{queues}" is no pattern of queue names: write e.g. orders-*:messages:create'
        )
    known = [rule.name for rule in policy.list_rules() if ":" in rule.name]
    for action in actions.split(","):
        if not any(fnmatchcase(name, action) for name in known):
            raise argparse.ArgumentTypeError(
                f'there is no action "{action}"; there are e.g. messages:create, claims:*'
            )
    return Right(prefix + queues, tuple(actions.split(",")))


def parse_expiry(text: str) -> int:
    """Parses a time or a duration from now; returns ms.  Raises ArgumentTypeError."""
    now = datetime.datetime.now(datetime.UTC)
    if duration := _DURATION.fullmatch(text):
        end = now + datetime.timedelta(**{_UNITS[duration[2]]: int(duration[1])})
    else:
        try:
            end = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text}: write a time as in 2030-01-31T12:00Z, or a duration as in 12h, 90d"
            ) from None
        end = end if end.tzinfo else end.replace(tzinfo=datetime.UTC)
    if end <= now:
        raise argparse.ArgumentTypeError(f"{text} is in the past")
    return int(end.timestamp() * 1000)


def _key_id(text: str) -> str:
    if not access_keys.is_key_id(text):
        raise argparse.ArgumentTypeError(f"{text}: ids are like zk_0123456789abcdef0123")
    return text


def _checked(rule: Callable[[str], str]) -> Callable[[str], str]:
    """Returns an argparse type for what a rule accepts."""

    def check(text: str) -> str:
        try:
            return rule(text)
        except errors.BadRequest as error:
            raise argparse.ArgumentTypeError(error.text) from None

    return check


class OpenKeys:
    """The access keys of the store; its methods block."""

    def __init__(self, keys: AccessKeys, runner: Runner, audit: AuditLog | None) -> None:
        """*audit*: None: changes are not recorded."""
        self.all = keys
        self._runner = runner
        self._audit = audit

    def run(self, verb: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await verb

        return self._runner.run(awaited)

    def get(self, key_id: str) -> AccessKey:
        """Raises CommandFailed when there is no such key."""
        found = self.run(self.all.get(key_id))
        if found is None:
            raise no_key(key_id)
        return found

    def record(self, verb: str, key: AccessKey) -> None:
        """Records a change in the audit log."""
        if self._audit is not None:
            self._audit.record(
                identity=Identity("", operator(), with_implied(frozenset((ADMIN,))), strategy=NONE),
                action=f"keys:{verb}",
                method="",
                path=f"/keys/{key.id}",
                target_project=key.project,
                status=200,
                request_id="",
                global_request_id="",
            )

    def each(self) -> Iterator[AccessKey]:
        page = self.run(self.all.list("", _PAGE_SIZE))
        while page.marker:
            yield from page.items
            page = self.run(self.all.list(page.marker, _PAGE_SIZE))


def no_key(key_id: str) -> CommandFailed:
    return CommandFailed(f"there is no access key {key_id}; `zaqar-redis key list` shows all")


class KeyCommand(TargetCommand):
    @functools.cached_property
    def keys(self) -> OpenKeys:
        """Those of the store, which is opened when they are used first."""
        audit = service_factory.command_audit(configuration.load([], self._parsed.config_file))
        if audit is not None:
            self.until_end(contextlib.closing(audit))
        keys, runner = self.until_end(open_access_keys(self._parsed, self.target))
        return OpenKeys(keys, runner, audit)


class SealCommand(KeyCommand):
    """Base of the commands that create secrets."""

    arguments = takes(
        arg(
            "--new-seal-key",
            action="store_true",
            help="accept a changed seal key that fits no existing key",
        ),
    )

    def seal(self, parsed: argparse.Namespace) -> SecretSeal:
        """Raises BadConfiguration without a seal key."""
        conf = configuration.load([], parsed.config_file)
        return SecretSeal(configuration.settings(conf, AccessKeySettings))

    def check_seal(self, parsed: argparse.Namespace, seal: SecretSeal) -> None:
        """Raises CommandFailed when services could not unseal what this one seals."""
        found = list(itertools.islice(self.keys.each(), _PAGE_SIZE))
        if found and not parsed.new_seal_key and not any(map(seal.fits, found)):
            raise CommandFailed(
                "[auth] seal_key is another than that of the access keys in the store: services "
                "would refuse the new secret. Give the configuration of the services; if you have "
                "changed it there, too, say --new-seal-key, and rotate all keys"
            )


class OneKeyCommand(KeyCommand):
    arguments = takes(arg("key", type=_key_id, help="its id"))


class CreateKey(SealCommand, ShowOne):
    """Create an access key, and show its secret, once.

    Clients send "Authorization: Bearer TOKEN", or the id and the secret as user and password
    (HTTP Basic), or sign requests with the secret. The store has the secret only encrypted, with
    [auth] seal_key: give the configuration of the service. A right restricts what the role
    allows to some actions, as in the policy, on some queues. Examples:

        zaqar-redis key create billing --project shop --expires 90d
        zaqar-redis key create dashboard --project shop --read-only
        zaqar-redis key create till --project shop --right orders:messages:create
    """

    arguments = takes(
        arg("user", type=_checked(rules.key_user), help="the person or program that uses it"),
        arg(
            "--project",
            type=_checked(rules.project_id),
            default="default",
            help="project of the key (default)",
        ),
        one_of(
            arg(
                "--role",
                action="append",
                choices=(READER, MEMBER, ADMIN),
                help="permissions: read, also write, or all in all projects (member)",
            ),
            arg(
                "--read-only",
                action="store_const",
                dest="role",
                const=[READER],
                help=f"the same as --role {READER}",
            ),
        ),
        arg(
            "--right",
            action="append",
            type=parse_right,
            default=[],
            metavar="QUEUES:ACTION[,ACTION]",
            help="allow only these actions on these queues, both with wildcards; may be given more "
            "than once",
        ),
        arg(
            "--expires",
            type=parse_expiry,
            default=0,
            metavar="WHEN",
            help="a time as in 2030-01-31T12:00Z, or from now: 45m, 12h, 90d, 4w (never)",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        seal, secret = self.seal(parsed_args), access_keys.new_secret()
        key = AccessKey(
            id=access_keys.new_id(),
            project=parsed_args.project,
            user=parsed_args.user,
            roles=tuple(sorted(set(parsed_args.role or [MEMBER]))),
            rights=tuple(parsed_args.right),
            created=clock.process(),
            expires=parsed_args.expires,
        )
        sealed = msgspec.structs.replace(key, sealed_secret=seal.seal(key, secret))
        self.check_seal(parsed_args, seal)
        self.keys.run(self.keys.all.create(sealed))
        self.keys.record("create", key)
        return _with_secret(key, secret, parsed_args)


class ListKey(KeyCommand, PagedListCommand):
    """List access keys, without their secrets.

    Example: zaqar-redis key list --project shop
    """

    arguments = takes(arg("--project", help="only keys of this project"))

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        wanted = parsed_args.project
        found = (_document(key) for key in self.keys.each() if wanted in (None, key.project))
        return table(_COLUMNS, found, parsed_args)


class ShowKey(OneKeyCommand, ShowOne):
    """Show an access key, without its secret.

    Example: zaqar-redis key show zk_0123456789abcdef0123
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        return single(_COLUMNS, _document(self.keys.get(parsed_args.key)), parsed_args)


class RotateKey(OneKeyCommand, SealCommand, ShowOne):
    """Give an access key a new secret, and show it, once.

    Services refuse the old one after five seconds. Example:

        zaqar-redis key rotate zk_0123456789abcdef0123
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        seal, secret = self.seal(parsed_args), access_keys.new_secret()
        key = self.keys.get(parsed_args.key)
        if key.expires and key.expires <= clock.process():
            raise CommandFailed(f"the access key {key.id} has expired; create another one")
        self.check_seal(parsed_args, seal)
        if not self.keys.run(self.keys.all.set_secret(key.id, seal.seal(key, secret))):
            raise no_key(key.id)
        self.keys.record("rotate", key)
        return _with_secret(key, secret, parsed_args)


class DisableKey(OneKeyCommand):
    """Disable an access key: services refuse it after five seconds.

    Example: zaqar-redis key disable zk_0123456789abcdef0123
    """

    is_disabled = True

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        key = self.keys.get(parsed_args.key)
        if not self.keys.run(self.keys.all.set_disabled(key.id, self.is_disabled)):
            raise no_key(key.id)
        self.keys.record("disable" if self.is_disabled else "enable", key)


class EnableKey(DisableKey):
    """Enable a disabled access key again.

    Example: zaqar-redis key enable zk_0123456789abcdef0123
    """

    is_disabled = False


class DeleteKey(OneKeyCommand, DestructiveCommand):
    """Delete an access key: services refuse it after five seconds.

    Example: zaqar-redis key delete zk_0123456789abcdef0123 --yes
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, f"Delete the access key {parsed_args.key}")
        key = self.keys.get(parsed_args.key)
        if not self.keys.run(self.keys.all.delete(key.id)):
            raise no_key(key.id)
        self.keys.record("delete", key)


def _with_secret(key: AccessKey, secret: str, parsed: argparse.Namespace) -> tuple[Row, Row]:
    # Not when it was created or used: this is to be saved, with the secret.
    names, values = single((*_COLUMNS[:5], "expires"), _document(key), parsed)
    return (*names, "secret", "token"), (*values, secret, f"{key.id}.{secret}")


def _document(key: AccessKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "project": key.project,
        "user": key.user,
        "roles": list(key.roles),
        "rights": [msgspec.to_builtins(right) for right in key.rights],
        "created": _time(key.created),
        "expires": _time(key.expires),
        "disabled": key.disabled,
        "last_used": _time(key.last_used),
    }


def _right_text(right: dict[str, Any]) -> str:
    return f"{right['queues']}:{','.join(right['actions'])}"


def _time(milliseconds: int) -> str | None:
    """Returns a time in UTC; None for 0."""
    if not milliseconds:
        return None
    end = datetime.datetime.fromtimestamp(milliseconds // 1000, datetime.UTC)
    return end.isoformat().replace("+00:00", "Z")
