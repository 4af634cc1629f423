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

from zaqar_redis.cli.api import ApiClient
from zaqar_redis.cli.base import (
    ApiCommand,
    Columns,
    DestructiveCommand,
    Row,
    Table,
    json_text,
    resource_name,
    table,
)
from zaqar_redis.cli.paged_lists import PagedListCommand


class ResourceCommand(ApiCommand):
    """Base of the commands for the resources of a kind."""

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
    """Base of the commands that list resources."""

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        return self.listed(parsed_args, self.columns)

    def listed(self, parsed: argparse.Namespace, shown: Columns, **query: object) -> Table:
        api = self.until_printed(self.open_api(parsed))
        return table(shown, api.list_items(f"/{self.plural}", self.plural, **query), parsed)


class NamedResourceCommand(ResourceCommand):
    """Base of the commands for one resource."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "name",
            metavar=self.argument,
            type=self.argument_type,
            help="its name"
            if self.argument == self.noun
            else f"{self.argument} of the {self.noun}",
        )
        return parser

    def path(self, parsed: argparse.Namespace) -> str:
        """Returns the resource's path, below ``/v2``."""
        return f"/{self.plural}/{parsed.name}"


class ShowResource(NamedResourceCommand, ShowOne):
    """Base of the commands that show one resource."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Row]:
        with self.open_api(parsed_args) as api:
            return self.shown(api, parsed_args)

    def shown(self, api: ApiClient, parsed: argparse.Namespace) -> tuple[Row, Row]:
        return self._table(api.request("GET", self.path(parsed), **self.query), parsed)

    def _table(self, document: dict[str, Any], parsed: argparse.Namespace) -> tuple[Row, Row]:
        names, [values] = table(self.columns or tuple(document), [document], parsed)
        return names, values


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
        with self.open_api(parsed_args) as api:
            before = api.found(path, **self.query) if self.resets else {}
            api.request(self.method, path, document)
            now = api.request("GET", path, **self.query)
            for name in self.resets:
                if (
                    name in before
                    and now[name] != before[name]
                    and getattr(parsed_args, name) is None
                ):
                    self.print_notice(
                        f"{name} was {json_text(before[name])}, and is now "
                        f"{json_text(now[name])}: it was not given",
                        verbosity=1,
                    )
            return self._table(now, parsed_args)


class DeleteResource(NamedResourceCommand, DestructiveCommand):
    """Base of the commands that delete one resource."""

    #: the path below a resource that exists if it does; None: DELETE says so itself
    probe: ClassVar[str | None] = None

    def question(self, parsed: argparse.Namespace) -> str:
        return f"Delete the {self.noun} {parsed.name}"

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.confirm(parsed_args, self.question(parsed_args))
        with self.open_api(parsed_args) as api:
            if self.probe is not None:
                with self.noticing("nothing to delete"):
                    api.require_shown(f"{self.path(parsed_args)}{self.probe}")
            api.request("DELETE", self.path(parsed_args))
