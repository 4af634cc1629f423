# SPDX-License-Identifier: Apache-2.0
"""The commands that pools, flavors and queues share: list, show, create, update, delete.

What the commands for one kind of resource differ in is in a table: `Resource`, and its columns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from cliff.lister import Lister
from cliff.show import ShowOne

from zaqar_redis.cli.api import ApiClient
from zaqar_redis.cli.base import (
    ApiCommand,
    Column,
    DestructiveCommand,
    Row,
    Table,
    columns,
    resource_name,
    row,
    table,
)


class Resource(msgspec.Struct, frozen=True):
    """A kind of resource that has a name."""

    #: its path and its listing have the plural of it
    noun: str
    #: of a list
    columns: tuple[Column, ...]
    #: further ones of one resource; None: in place of them, all fields of its document
    details: tuple[Column, ...] | None = ()
    #: of the request for one
    query: dict[str, object] = {}
    #: the command's argument that names one, and its help
    argument: str = "name"
    help: str = ""
    #: asked before one is deleted, with its name
    question: str = ""

    @property
    def plural(self) -> str:
        return f"{self.noun}s"

    def path(self, name: str) -> str:
        """Returns the path of one, below ``/v2``."""
        return f"/{self.plural}/{name}"


class ListResource(ApiCommand, Lister):
    """Base of the commands that list the resources of a kind."""

    resource: ClassVar[Resource]

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        return self.listed(parsed_args, self.resource.columns)

    def listed(self, parsed: argparse.Namespace, shown: Sequence[Column], **query: object) -> Table:
        plural = self.resource.plural
        with self.open_api(parsed) as api:
            return table(shown, api.list_items(f"/{plural}", plural, **query), parsed)


class ResourceCommand(ApiCommand):
    """Base of the commands for one resource."""

    resource: ClassVar[Resource]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        kind = self.resource
        parser.add_argument(
            kind.argument, type=resource_name, help=kind.help or f"of the {kind.noun}"
        )
        return parser

    def name(self, parsed: argparse.Namespace) -> str:
        return str(getattr(parsed, self.resource.argument))

    def path(self, parsed: argparse.Namespace) -> str:
        return self.resource.path(self.name(parsed))


class ShowResource(ResourceCommand, ShowOne):
    """Base of the commands that show one resource."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            return self.shown(api, parsed_args)

    def shown(self, api: ApiClient, parsed: argparse.Namespace) -> tuple[Row, Row]:
        document = api.request("GET", self.path(parsed), **self.resource.query)
        kind = self.resource
        shown = columns(*document) if kind.details is None else kind.columns + kind.details
        return tuple(column.name for column in shown), row(shown, document, parsed)


class PutResource(ShowResource):
    """Base of the commands that create a resource, or replace it, and then show it."""

    method = "PUT"

    def document(self, parsed: argparse.Namespace) -> dict[str, Any]:
        """Returns the body of the request."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            api.request(self.method, self.path(parsed_args), self.document(parsed_args))
            return self.shown(api, parsed_args)


class DeleteResource(ResourceCommand, DestructiveCommand):
    """Base of the commands that delete one resource."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        kind, name = self.resource, self.name(parsed_args)
        self.confirm(parsed_args, (kind.question or f"Delete the {kind.noun} {{}}").format(name))
        with self.open_api(parsed_args) as api:
            api.request("DELETE", self.path(parsed_args))
