# SPDX-License-Identifier: Apache-2.0
"""Namespaces: the options and permissions of channels, by name.

The part of a name before the first colon is its namespace, which has the options; names
without one have options of their own.  ``$`` before a name: private, only with a token.  ``#``
in it: only for the users named after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw

from zaqar_redis.realtime.engine import HistoryOptions
from zaqar_redis.realtime.protocol import codes
from zaqar_redis.realtime.protocol.wire import NO_PAYLOAD, Payload

#: Characters of a channel's name.
NAME_MAX = 255
#: Seconds for which offset and epoch are stored: longer than a client stays disconnected.
META_TTL = 720 * 3600

#: The name of a namespace.
NAME = re.compile(r"[-a-zA-Z0-9_.]{2,}")


PublicationFormat = Literal["", "json", "json_object", "binary"]


class ChannelOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a namespace's channels; the names are Centrifugo's.  Times in seconds."""

    presence: Annotated[
        bool, "Record which clients are subscribed, so that presence can be asked for."
    ] = False
    join_leave: Annotated[bool, "Send join and leave events to subscribers that ask for them."] = (
        False
    )
    force_push_join_leave: Annotated[bool, "Send join and leave events to all subscribers."] = False
    history_size: Annotated[
        int, Meta(ge=0), "Number of publications in the history; 0: no history."
    ] = 0
    history_ttl: Annotated[
        int,
        Meta(ge=0),
        "Seconds that the history is kept after the last publication; 0: no history.",
    ] = 0
    history_meta_ttl: Annotated[
        int,
        Meta(ge=0),
        "Seconds that offset and epoch are kept after the last use; longer than any client stays "
        "disconnected.",
    ] = META_TTL
    force_positioning: Annotated[
        bool, "Notify all subscribers when they have missed publications."
    ] = False
    allow_positioning: Annotated[
        bool, "Notify subscribers that ask for it when they have missed publications."
    ] = False
    force_recovery: Annotated[
        bool, "Send all subscribers what they missed when they subscribe again."
    ] = False
    allow_recovery: Annotated[
        bool, "Send subscribers that ask for it what they missed when they subscribe again."
    ] = False
    force_recovery_mode: Annotated[
        Literal["stream", "cache"],
        "What recovery sends. stream: all missed publications; cache: the latest publication.",
    ] = "stream"
    auto_cache_recover: Annotated[
        bool,
        "Send the latest publication also to clients that subscribe for the first time; needs "
        "force_recovery, and force_recovery_mode cache.",
    ] = False
    allow_subscribe_for_client: Annotated[bool, "Clients may subscribe."] = False
    allow_subscribe_for_anonymous: Annotated[bool, "Clients without a user may subscribe too."] = (
        False
    )
    allow_publish_for_client: Annotated[bool, "Clients may publish."] = False
    allow_publish_for_subscriber: Annotated[bool, "Subscribers may publish."] = False
    allow_publish_for_anonymous: Annotated[bool, "Clients without a user may publish too."] = False
    allow_presence_for_client: Annotated[bool, "Clients may ask for presence."] = False
    allow_presence_for_subscriber: Annotated[bool, "Subscribers may ask for presence."] = False
    allow_presence_for_anonymous: Annotated[
        bool, "Clients without a user may ask for presence too."
    ] = False
    allow_history_for_client: Annotated[bool, "Clients may ask for history."] = False
    allow_history_for_subscriber: Annotated[bool, "Subscribers may ask for history."] = False
    allow_history_for_anonymous: Annotated[
        bool, "Clients without a user may ask for history too."
    ] = False
    allow_user_limited_channels: Annotated[
        bool, "Only user1 and user2 may subscribe to a channel named like name#user1,user2."
    ] = False
    allow_tags_filter: Annotated[bool, "A subscriber may filter publications by their tags."] = (
        False
    )
    allowed_delta_types: Annotated[
        tuple[Literal["fossil"], ...],
        "Delta formats that subscribers may ask for, to get changes in place of whole "
        "publications: fossil, or nothing.",
    ] = ()
    delta_publish: Annotated[
        bool,
        "Send all publications as deltas; without it, only those that are published with the flag "
        "delta of the server API.",
    ] = False
    channel_regex: Annotated[
        str, "What the rest of a channel's name must match; without it, names are ASCII."
    ] = ""
    publication_data_format: Annotated[
        PublicationFormat,
        "What publications must be. json; json_object; binary: any bytes, or no data; empty: any "
        "bytes, but not no data. A client of the JSON protocol is disconnected (3506) when it "
        "would get data that is not JSON.",
    ] = ""

    def accepts(self, data: Payload) -> bool:
        """Returns whether *data* may be published."""
        match self.publication_data_format:
            case "binary":
                return True
            case "json":
                return isinstance(data, Raw) and data is not NO_PAYLOAD
            case "json_object":
                return isinstance(data, Raw) and bytes(data).lstrip().startswith(b"{")
            case _:
                return data is not NO_PAYLOAD

    @property
    def has_history(self) -> bool:
        """Whether publications have positions, and can be read again."""
        return self.history_options is not None

    @property
    def history_options(self) -> HistoryOptions | None:
        """Size and lifetime of the history; None: there is no history."""
        if self.history_size <= 0 or self.history_ttl <= 0:
            return None
        return HistoryOptions(self.history_size, self.history_ttl, self.history_meta_ttl)

    def supports(self, what: str) -> bool:
        """Returns whether *presence* or *history* is enabled at all; *publish* always is."""
        if what == "presence":
            return self.presence
        return what != "history" or self.has_history

    def allows(self, what: str, anonymous: bool, subscribed: bool) -> bool:
        """Returns whether a client may *publish*, or read *presence* or *history*."""
        if anonymous and not getattr(self, f"allow_{what}_for_anonymous"):
            return False
        if getattr(self, f"allow_{what}_for_client"):
            return True
        return subscribed and bool(getattr(self, f"allow_{what}_for_subscriber"))


class Namespaces:
    def __init__(self, without: ChannelOptions, named: Mapping[str, ChannelOptions]) -> None:
        self._without = without
        self._named = dict(named)

    @property
    def store_history(self) -> bool:
        """Whether the engine stores the history of any channel: queues have theirs."""
        every = (self._without, *self._named.values())
        return any(options.history_options is not None for options in every)

    def options(self, channel: str) -> ChannelOptions:
        """Returns a channel's options.

        Raises CommandRejected: bad request for an invalid name, or unknown channel.
        """
        if not channel or len(channel) > NAME_MAX:
            raise codes.CommandRejected(codes.BAD_REQUEST)
        name = channel.removeprefix("$")
        space, colon, _ = name.partition(":")
        # A user's id may have a colon in it.
        named = colon and not name.startswith("#")
        options = self._named.get(space) if named else self._without
        if options is None:
            raise codes.CommandRejected(codes.UNKNOWN_CHANNEL)
        if options.channel_regex:
            rest = name.partition(":")[2] if named else name
            if not re.search(options.channel_regex, rest):
                raise codes.CommandRejected(codes.BAD_REQUEST)
        elif not channel.partition("#")[0].isascii():  # user ids come after it
            raise codes.CommandRejected(codes.BAD_REQUEST)
        return options


def users_of(channel: str) -> frozenset[str] | None:
    """Returns the users to whom the channel is limited; None: it is not limited."""
    _, mark, users = channel.partition("#")
    return frozenset(users.split(",")) if mark else None


def is_private(channel: str) -> bool:
    """Returns whether a subscription needs a token."""
    return channel.startswith("$")
