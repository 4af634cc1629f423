# SPDX-License-Identifier: Apache-2.0
"""Options that open more than an operator may want: the doctor and ``config check`` name them."""

from __future__ import annotations

from collections.abc import Iterator

from oslo_config import cfg

from zaqar_redis import conf as configuration
from zaqar_redis.api.api_key import ApiKeySettings
from zaqar_redis.api.settings import ApiSettings
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
    address = f"{listen.bind}:{listen.port}"
    if "none" in auth.strategy and auth.insecure:
        what = f"[auth] insecure: whoever reaches {address} may do everything."
        yield "critical", what, "Choose a strategy: key, jwt or keystone."
    elif "none" in auth.strategy:
        remedy = "Choose a strategy when there are others on it: key, jwt or keystone."
        what = "[auth] strategy is none: every user of this machine may do everything at"
        yield "info", f"{what} {address}.", remedy
    if configuration.settings(conf, ApiKeySettings).insecure:
        what = (
            "[channels] api_insecure: /api and the console, which makes access keys, take calls "
            "without a key."
        )
        yield "critical", what, "Set api_key."
    if configuration.settings(conf, SessionSettings).insecure:
        what = "[channels] insecure: clients connect without a token."
        yield "critical", what, "Give them tokens, or a proxy."
    key = configuration.settings(conf, ApiSettings).signing_key
    if key and len(key) < 16:  # as many as a seal key has at least
        what = f"[signed_url] secret_key has {len(key)} characters: it can be guessed."
        yield "warning", what, "Set that of openssl rand -base64 32; URLs by the old one end."
    tokens = configuration.settings(conf, TokenSettings)
    for what, remedy in short_keys(tokens):
        yield "warning", f"{what}.", f"{remedy}."
    if tokens.any_project:
        remedy = "Turn it off, and give each project an access key that signs its tokens."
        what = (
            "[channels] token_any_project: whoever has a key of tokens reads and uses the channels "
            "and queues of all projects."
        )
        yield "warning", what, remedy
    if "*" in configuration.settings(conf, ChannelsSettings).allowed_origins:
        what = "[channels] allowed_origins: * lets every web page connect."
        yield "warning", what, "Name your pages' origins."
    allowed = configuration.settings(conf, HttpSettings).allowed_networks
    if any(network.endswith("/0") for network in allowed):
        what = (
            "[notification] allowed_networks: whoever may subscribe has requests sent to any "
            "address of your networks, and to this machine."
        )
        yield "warning", what, "Name the networks of your endpoints."
    if configuration.settings(conf, MailSettings).smtp_insecure:
        what = "[notification] smtp_insecure: anybody can pretend to be the mail server."
        yield "warning", what, "Name the authority of its certificate, by smtp_ca_file."
