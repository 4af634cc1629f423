# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis topic …``: the commands of queues and messages, for topics."""

from __future__ import annotations

import argparse
import json
from itertools import islice

from zaqar_redis.cli.base import Column, Table, bounded_int
from zaqar_redis.cli.messages import COLUMNS, FittedListCommand, PostMessage
from zaqar_redis.cli.queues import (
    CreateQueue,
    DeleteQueue,
    PurgeQueue,
    ShowQueue,
    ShowQueueStats,
    UpdateQueue,
)
from zaqar_redis.cli.resources import ListResource, NamedResourceCommand


class TopicCommand(NamedResourceCommand):
    """Base of the commands for one topic."""

    noun = argument = "topic"


class ListTopic(ListResource):
    """List the topics of a project, by name.

    Example: zaqar-redis topic list --project shop -f csv
    """

    noun = "topic"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--name", help="only those whose name contains this")
        parser.add_argument("--detailed", action="store_true", help="with their metadata")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        detailed = parsed_args.detailed
        metadata = (Column("metadata", as_text=json.dumps),) if detailed else ()
        shown = ("name", *metadata)
        return self.listed(parsed_args, shown, name=parsed_args.name, detailed=detailed)


class CreateTopic(TopicCommand, CreateQueue):
    """Create a topic; an existing one stays as it is.

    Example: zaqar-redis topic create news --metadata '{"_history_size": 1000}'
    """


class UpdateTopic(TopicCommand, UpdateQueue):
    """Change some of a topic's metadata, and show all of it.

    What is neither set nor removed stays; all changes are made, or none. Example:

        zaqar-redis topic update news --set '{"_history_size": 5000}' --remove colour
    """


class ShowTopic(TopicCommand, ShowQueue):
    """Show a topic's metadata, defaults included.

    Example: zaqar-redis topic show news
    """


class ShowTopicStats(TopicCommand, ShowQueueStats):
    """Show how many messages a topic's history has, their ages, and what has happened to them.

    Ages are in seconds; what ends in _total counts since the topic was created. What its
    history does not keep any more counts as expired.

    Example: zaqar-redis topic stats news
    """


class PublishTopic(TopicCommand, PostMessage):
    """Publish messages: each body is JSON, or else plain text. Shows their ids.

    Example: zaqar-redis topic publish news '{"number": 7}' hello --ttl 600
    """


class ShowTopicHistory(TopicCommand, FittedListCommand):
    """List the messages of a topic, oldest first.

    Example: zaqar-redis topic history news --reverse --limit 10
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--reverse", action="store_true", help="newest first")
        parser.add_argument("--delayed", action="store_true", help="delayed ones too")
        parser.add_argument(
            "--limit", type=bounded_int(1, 1_000_000), metavar="N", help="this many at most (all)"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        with self.open_api(parsed_args) as api:
            found = api.list_items(
                f"{self.path(parsed_args)}/messages",
                "messages",
                reverse=parsed_args.reverse,
                include_delayed=parsed_args.delayed,
                with_attributes=True,
            )
            return self.listed(parsed_args, COLUMNS, islice(found, parsed_args.limit))


class PurgeTopic(TopicCommand, PurgeQueue):
    """Remove all messages and subscriptions of a topic; the topic stays.

    Example: zaqar-redis topic purge news --yes
    """


class DeleteTopic(TopicCommand, DeleteQueue):
    """Remove a topic with everything in it.

    Example: zaqar-redis topic delete news --yes
    """
