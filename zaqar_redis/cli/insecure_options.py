# SPDX-License-Identifier: Apache-2.0
"""Options that open more than an operator may want: the doctor and ``config check`` name them."""

from __future__ import annotations

from collections.abc import Iterator

from oslo_config import cfg

from zaqar_redis import conf as configuration
from zaqar_redis.api.api_key import ApiKeySettings
from zaqar_redis.auth.tokens import TokenSettings, short_keys
from zaqar_redis.conf.groups import AuthSettings, ChannelsSettings, ListenSettings
from zaqar_redis.figures import Severity
from zaqar_redis.notify.mail.settings import MailSettings
from zaqar_redis.notify.settings import HttpSettings
from zaqar_redis.realtime.session.context import SessionSettings


def insecure_options(conf: cfg.ConfigOpts) -> Iterator[tuple[Severity, str, str]]:
    """Yields how severe each is, what it opens, and what to do.

    Raises cfg.Error for an invalid value.
    """
    auth = configuration.settings(conf, AuthSettings)
    listen = configuration.settings(conf, ListenSettings)
    if "none" in auth.strategy:
        if auth.insecure:
            yield (
                "critical",
                f"[auth] insecure: whoever reaches {listen.bind}:{listen.port} may do everything.",
                "Choose a strategy: key, jwt or keystone.",
            )
        else:
            yield (
                "info",
                f"[auth] strategy is none: every user of this machine may do everything at "
                f"{listen.bind}:{listen.port}.",
                "Choose a strategy when there are others on it: key, jwt or keystone.",
            )
    if configuration.settings(conf, ApiKeySettings).insecure:
        yield (
            "critical",
            "[channels] api_insecure: /api and the console, which makes access keys, take calls "
            "without a key.",
            "Set api_key.",
        )
    if configuration.settings(conf, SessionSettings).insecure:
        yield (
            "critical",
            "[channels] insecure: clients connect without a token.",
            "Give them tokens, or a proxy.",
        )
    tokens = configuration.settings(conf, TokenSettings)
    for what, remedy in short_keys(tokens):
        yield "warning", f"{what}.", f"{remedy}."
    if tokens.any_project:
        yield (
            "warning",
            "[channels] token_any_project: whoever has a key of tokens reads and uses the channels "
            "and queues of all projects.",
            "Turn it off, and give each project an access key that signs its tokens.",
        )
    if "*" in configuration.settings(conf, ChannelsSettings).allowed_origins:
        yield (
            "warning",
            "[channels] allowed_origins: * lets every web page connect.",
            "Name your pages' origins.",
        )
    allowed = configuration.settings(conf, HttpSettings).allowed_networks
    if any(network.endswith("/0") for network in allowed):
        yield (
            "warning",
            "[notification] allowed_networks: whoever may subscribe has requests sent to any "
            "address of your networks, and to this machine.",
            "Name the networks of your endpoints.",
        )
    if configuration.settings(conf, MailSettings).smtp_insecure:
        yield (
            "warning",
            "[notification] smtp_insecure: anybody can pretend to be the mail server.",
            "Name the authority of its certificate, by smtp_ca_file.",
        )
