# SPDX-License-Identifier: Apache-2.0
"""The commands that pools, flavors, queues and quotas share: list, show, create, update, delete.

What the kinds of resources differ in are attributes of `ResourceCommand`.
"""

from __future__ import annotations

import abc
import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from cliff.show import ShowOne

from zaqar_redis.cli.base import (
    ApiCommand,
    Columns,
    DestructiveCommand,
    Row,
    Table,
    given,
    json_text,
    resource_name,
    single,
    table,
    takes,
)
from zaqar_redis.cli.paged_lists import PagedListCommand


class ResourceCommand(ApiCommand):
    #: what one is called; paths and listings have the plural
    noun: ClassVar[str]
    #: of what is shown; empty: all fields of the document
    columns: ClassVar[Columns] = ()
    #: the argument that names one
    argument: ClassVar[str] = "name"
    #: checks that argument
    argument_type: Callable[[str], str] = staticmethod(resource_name)
    #: of the request for one
    query: ClassVar[Mapping[str, object]] = {}

    @property
    def plural(self) -> str:
        return f"{self.noun}s"


class ListResource(ResourceCommand, PagedListCommand):
    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        return self.listed(parsed_args, self.columns)

    def listed(self, parsed: argparse.Namespace, shown: Columns, **query: object) -> Table:
        return table(shown, self.api.list_items(f"/{self.plural}", self.plural, **query), parsed)


class NamedResourceCommand(ResourceCommand):
    arguments = takes(lambda command, parser: command.add_name(parser))

    def add_name(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "name",
            metavar=self.argument,
            type=self.argument_type,
            help="its name"
            if self.argument == self.noun
            else f"{self.argument} of the {self.noun}",
        )

    def path(self, parsed: argparse.Namespace) -> str:
        """Returns the resource's path, below ``/v2``."""
        return f"/{self.plural}/{parsed.name}"


class ShowResource(NamedResourceCommand, ShowOne):
    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        return self.shown(parsed_args)

    def shown(self, parsed: argparse.Namespace) -> tuple[Row, Row]:
        return self._table(self.api.request("GET", self.path(parsed), **self.query), parsed)

    def _table(self, document: dict[str, Any], parsed: argparse.Namespace) -> tuple[Row, Row]:
        return single(self.columns or tuple(document), document, parsed)


class PutResource(ShowResource):
    """Base of the commands that create a resource, or change it, and then show it."""

    method = "PUT"
    #: what it resets unless it is given, and says so
    resets: ClassVar[Sequence[str]] = ()

    @abc.abstractmethod
    def document(self, parsed: argparse.Namespace) -> dict[str, Any]:
        """Returns the body of the request."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        path, document = self.path(parsed_args), self.document(parsed_args)
        before = self.api.found(path, **self.query) if self.resets else {}
        self.api.request(self.method, path, document)
        now = self.api.request("GET", path, **self.query)
        stated = given(parsed_args, *self.resets)
        for name in self.resets:
            if name in before.keys() - stated.keys() and now[name] != before[name]:
                self.print_notice(
                    f"{name} was {json_text(before[name])}, and is now "
                    f"{json_text(now[name])}: it was not given",
                    verbosity=1,
                )
        return self._table(now, parsed_args)


class DeleteResource(NamedResourceCommand, DestructiveCommand):
    #: the path below a resource that exists if it does; None: DELETE says so itself
    probe: ClassVar[str | None] = None

    def question(self, parsed: argparse.Namespace) -> str:
        return f"Delete the {self.noun} {parsed.name}"

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, self.question(parsed_args))
        if self.probe is not None:
            with self.noticing("nothing to delete"):
                self.api.require_shown(f"{self.path(parsed_args)}{self.probe}")
        self.api.request("DELETE", self.path(parsed_args))
