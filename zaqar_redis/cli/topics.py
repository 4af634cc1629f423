# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis topic …``: the commands of queues and messages, for topics."""

from __future__ import annotations

import argparse

from zaqar_redis.cli.base import Table, arg, takes
from zaqar_redis.cli.messages import ListMessagesCommand, PostMessage
from zaqar_redis.cli.queues import (
    CreateQueue,
    DeleteQueue,
    ListNamedResource,
    PurgeQueue,
    ShowQueue,
    ShowQueueStats,
    UpdateQueue,
)
from zaqar_redis.cli.resources import NamedResourceCommand


class TopicCommand(NamedResourceCommand):
    noun = argument = "topic"


class ListTopic(ListNamedResource):
    """List the topics of a project, by name.

    Example: zaqar-redis topic list --project shop -f csv
    """

    noun = "topic"

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        return self.listed(parsed_args, self.shown(parsed_args), **self.chosen(parsed_args))


class CreateTopic(TopicCommand, CreateQueue):
    """Create a topic; an existing one stays as it is.

    Example: zaqar-redis topic create news --metadata '{"_history_size": 1000}'
    """


class UpdateTopic(TopicCommand, UpdateQueue):
    """Change some of a topic's metadata, and show all of it.

    Other attributes stay. All changes are made, or none. Example:

        zaqar-redis topic update news --set '{"_history_size": 5000}' --remove colour
    """


class ShowTopic(TopicCommand, ShowQueue):
    """Show a topic's metadata, defaults included.

    Example: zaqar-redis topic show news
    """


class ShowTopicStats(TopicCommand, ShowQueueStats):
    """Show the number of messages in a topic's history, their ages, and counters.

    Ages are in seconds; counters end in _total, and count since the creation of the topic.
    Messages removed from the history count as expired.

    Example: zaqar-redis topic stats news
    """


class PublishTopic(TopicCommand, PostMessage):
    """Publish messages: each body is JSON, or else plain text. Shows their ids.

    Example: zaqar-redis topic publish news '{"number": 7}' hello --ttl 600
    """


class ShowTopicHistory(TopicCommand, ListMessagesCommand):
    """List the messages of a topic, oldest first.

    Example: zaqar-redis topic history news --reverse --limit 10
    """

    arguments = takes(arg("--reverse", action="store_true", help="newest first"))

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        return self.listed_messages(parsed_args, reverse=parsed_args.reverse)


class PurgeTopic(TopicCommand, PurgeQueue):
    """Remove all messages and subscriptions of a topic; the topic stays.

    Example: zaqar-redis topic purge news --yes
    """


class DeleteTopic(TopicCommand, DeleteQueue):
    """Remove a topic with everything in it.

    Example: zaqar-redis topic delete news --yes
    """
