# SPDX-License-Identifier: Apache-2.0
"""Channels; names are Centrifugo's."""

from __future__ import annotations

from typing import Any

import msgspec
from oslo_config import cfg, types

from zaqar_redis.auth import tokens
from zaqar_redis.conf import checks, files
from zaqar_redis.realtime.node import queue_channels
from zaqar_redis.realtime.session import deltas
from zaqar_redis.realtime.session.context import SessionSettings
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces

_DEFAULTS = SessionSettings()
_TOKENS = tokens.TokenSettings()
_GROUP = "channels"

_HELP = {
    "presence": "Record which clients are subscribed, so that presence can be asked for.",
    "join_leave": "Send join and leave events to subscribers that ask for them.",
    "force_push_join_leave": "Send join and leave events to all subscribers.",
    "history_size": "Number of publications in the history; 0: no history.",
    "history_ttl": "Seconds that the history is kept after the last publication; 0: no history.",
    "history_meta_ttl": "Seconds that offset and epoch are kept after the last use; longer than "
    "any client stays disconnected.",
    "force_positioning": "Notify all subscribers when they have missed publications.",
    "allow_positioning": "Notify subscribers that ask for it when they have missed publications.",
    "force_recovery": "Send all subscribers what they missed when they subscribe again.",
    "allow_recovery": "Send subscribers that ask for it what they missed when they subscribe "
    "again.",
    "force_recovery_mode": "What recovery sends. stream: all missed publications; cache: the "
    "latest publication.",
    "auto_cache_recover": "Send the latest publication also to clients that subscribe for the "
    "first time; needs force_recovery, and force_recovery_mode cache.",
    "allow_user_limited_channels": "Only user1 and user2 may subscribe to a channel named like "
    "name#user1,user2.",
    "allow_tags_filter": "A subscriber may filter publications by their tags.",
    "allowed_delta_types": "Delta formats that subscribers may ask for, to get changes in place "
    "of whole publications: fossil, or nothing.",
    "delta_publish": "Send all publications as deltas; without it, only those that are published "
    "with the flag delta of the server API.",
    "publication_data_format": "What publications must be. json; json_object; binary: any bytes, "
    "or no data; empty: any bytes, but not no data. A client of the JSON protocol is disconnected "
    "(3506) when it would get data that is not JSON.",
    "channel_regex": "What the rest of a channel's name must match; without it, names are ASCII.",
}
for _what, _doing in (
    ("subscribe", "subscribe"), ("publish", "publish"), ("presence", "ask for presence"),
    ("history", "ask for history"),
):  # fmt: skip
    _HELP[f"allow_{_what}_for_client"] = f"Clients may {_doing}."
    _HELP[f"allow_{_what}_for_anonymous"] = f"Clients without a user may {_doing} too."
    if _what != "subscribe":
        _HELP[f"allow_{_what}_for_subscriber"] = f"Subscribers may {_doing}."


_CHOICES = {
    "force_recovery_mode": ["stream", "cache"],
    "publication_data_format": ["", "json", "json_object", "binary"],
    "allowed_delta_types": list(deltas.TYPES),
}


def _option(name: str, default: Any) -> cfg.Opt:
    if isinstance(default, bool):
        return cfg.BoolOpt(name, default=default, help=_HELP[name])
    if isinstance(default, int):
        return cfg.IntOpt(name, default=default, min=0, help=_HELP[name])
    if isinstance(default, tuple):
        item = types.String(choices=_CHOICES[name])
        return cfg.ListOpt(name, default=list(default), item_type=item, help=_HELP[name])
    return cfg.StrOpt(name, default=default, choices=_CHOICES.get(name), help=_HELP[name])


def _channel_options(defaults: ChannelOptions) -> list[cfg.Opt]:
    return [_option(name, getattr(defaults, name)) for name in defaults.__struct_fields__]


_CHANNELS: list[cfg.Opt] = [
    cfg.BoolOpt("enabled", default=True, help="Serve channels."),
    cfg.ListOpt(
        "namespaces",
        default=[],
        help="Names of namespaces; each has its options in a group [channels:NAME]. The options "
        "in this group are for channels without a namespace.",
    ),
    cfg.ListOpt(
        "uris",
        default=[],
        help="URIs of several Redis; each channel is in one of them, chosen by its name and their "
        "order. So all nodes must have the same order, and a new URI is added at the end. Empty: "
        "the store of [storage] uri.",
    ),
    cfg.StrOpt("project", default="default", help="Project that the channels belong to."),
    cfg.ListOpt(
        "allowed_origins",
        default=[],
        help="Globs; connections from web pages of other origins are refused.",
    ),
    cfg.BoolOpt(
        "insecure", default=False, help="Allow everything without a token; for development only."
    ),
    cfg.BoolOpt(
        "allow_anonymous_connect_without_token",
        default=False,
        help="Clients without a token may connect, without a user.",
    ),
    cfg.BoolOpt(
        "user_personal_channel",
        default=False,
        help="Subscribe each client to its user's personal channel #USER when it connects.",
    ),
    cfg.BoolOpt(
        "user_personal_single_connection",
        default=False,
        help="A new connection of a user ends the user's other connections.",
    ),
    cfg.IntOpt(
        "user_connection_limit",
        default=0,
        min=0,
        help="Maximum number of connections of one user to one worker; 0: no limit.",
    ),
    cfg.StrOpt(
        "personal_channel_namespace",
        default="",
        help="Namespace of the users' personal channels; empty: none.",
    ),
    cfg.IntOpt(
        "channel_limit",
        default=_DEFAULTS.channel_limit,
        min=1,
        help="Maximum number of subscriptions of one connection.",
    ),
    cfg.IntOpt(
        "presence_ttl",
        default=_DEFAULTS.presence_ttl,
        min=2,
        help="Seconds until clients of a worker that died are no longer present; presence is "
        "renewed at least twice in that time.",
    ),
    cfg.IntOpt(
        "ping_interval", default=_DEFAULTS.ping_interval, min=1, help="Seconds between pings."
    ),
    cfg.FloatOpt(
        "pong_timeout",
        default=_DEFAULTS.pong_timeout,
        min=0.1,
        help="Seconds that a client has to answer a ping.",
    ),
    cfg.StrOpt("token_hmac_secret_key", secret=True, help="Key of tokens signed with HS256 etc."),
    cfg.StrOpt(
        "token_hmac_previous_secret_key",
        secret=True,
        help="Previous value of token_hmac_secret_key, valid too while keys are rotated.",
    ),
    cfg.StrOpt("token_rsa_public_key", default="", help="Key of tokens signed with RS256; PEM."),
    cfg.StrOpt("token_ecdsa_public_key", default="", help="Key of tokens signed with ES256; PEM."),
    cfg.StrOpt(
        "token_ed25519_public_key", default="", help="Key of tokens signed with EdDSA; PEM."
    ),
    cfg.StrOpt("token_jwks_public_endpoint", default="", help="URL of a JSON Web Key Set."),
    cfg.StrOpt("token_audience", default="", help="Required value of the claim aud."),
    cfg.StrOpt("token_issuer", default="", help="Required value of the claim iss."),
    cfg.IntOpt(
        "token_leeway",
        default=_TOKENS.leeway,
        min=0,
        help="Seconds by which nbf and iat of a token may be in the future, for signers whose "
        "clocks are ahead. A token further in the future is answered like an expired one.",
    ),
    cfg.StrOpt("token_user_id_claim", default="sub", help="The claim that names the user."),
    cfg.StrOpt(
        "token_project_claim",
        default="project",
        help="The claim that names the project of the connection; in tokens without it, the "
        "project is that of the option project.",
    ),
    cfg.StrOpt(
        "api_key",
        secret=True,
        help="Key that backends and operators need to use /api; without a key, /api refuses all "
        "requests.",
    ),
    cfg.BoolOpt(
        "api_insecure", default=False, help="Allow /api without a key; for development only."
    ),
    cfg.BoolOpt(
        "console",
        default=True,
        help="Serve the web console at /console/, which uses /api: users sign in with api_key.",
    ),
    *_channel_options(ChannelOptions()),
]

OPTIONS: list[tuple[str | None, list[cfg.Opt]]] = [(_GROUP, _CHANNELS)]


def settings(conf: cfg.ConfigOpts) -> SessionSettings:
    group = conf[_GROUP]
    return SessionSettings(
        insecure=group.insecure,
        allow_anonymous=group.allow_anonymous_connect_without_token,
        user_personal_channel=group.user_personal_channel,
        personal_namespace=(
            f"{group.personal_channel_namespace}:" if group.personal_channel_namespace else ""
        ),
        single_connection=group.user_personal_single_connection,
        user_connection_limit=group.user_connection_limit,
        channel_limit=group.channel_limit,
        presence_ttl=group.presence_ttl,
        ping_interval=group.ping_interval,
        pong_timeout=group.pong_timeout,
    )


def problems(conf: cfg.ConfigOpts) -> list[str]:
    """Returns contradictions between options of channels; each names group and option."""
    if not conf[_GROUP].enabled:
        return []
    found = list(checks.check_names(conf))
    by_group = {
        _GROUP: _options(conf, _GROUP, ChannelOptions),
        **{_group(name): options for name, options in _options_by_namespace(conf).items()},
    }
    for group, options in by_group.items():
        found += checks.check_options(group, options)
    return found


def namespace_options(conf: cfg.ConfigOpts) -> dict[str, list[cfg.Opt]]:
    """Returns the options of each namespace, by group."""
    return {_group(name): _channel_options(kind()) for name, kind in _option_types(conf).items()}


def register_namespaces(conf: cfg.ConfigOpts) -> None:
    for group, options in namespace_options(conf).items():
        conf.register_opts(options, group=group)


def namespaces(conf: cfg.ConfigOpts) -> Namespaces:
    return Namespaces(_options(conf, _GROUP, ChannelOptions), _options_by_namespace(conf))


def _group(namespace: str) -> str:
    return f"{files.NAMESPACE}{namespace}"


def _option_types(conf: cfg.ConfigOpts) -> dict[str, type[ChannelOptions]]:
    """Returns the type of the options by namespace; the namespace of queues always exists."""
    return dict.fromkeys(conf[_GROUP].namespaces, ChannelOptions) | {
        queue_channels.NAMESPACE: queue_channels.QueueChannelOptions
    }


def _options_by_namespace(conf: cfg.ConfigOpts) -> dict[str, ChannelOptions]:
    """Returns the values of the options by namespace."""
    return {name: _options(conf, _group(name), kind) for name, kind in _option_types(conf).items()}


def _options(conf: cfg.ConfigOpts, group: str, kind: type[ChannelOptions]) -> ChannelOptions:
    given = {field: conf[group][field] for field in kind.__struct_fields__}
    return msgspec.convert(given, kind)


def token_settings(conf: cfg.ConfigOpts) -> tokens.TokenSettings:
    group = conf[_GROUP]
    secrets = (group.token_hmac_secret_key, group.token_hmac_previous_secret_key)
    return tokens.TokenSettings(
        hmac=tuple(secret for secret in secrets if secret),
        rsa=group.token_rsa_public_key,
        ecdsa=group.token_ecdsa_public_key,
        ed25519=group.token_ed25519_public_key,
        jwks_url=group.token_jwks_public_endpoint,
        audience=group.token_audience,
        issuer=group.token_issuer,
        leeway=group.token_leeway,
        user_claim=group.token_user_id_claim,
        project_claim=group.token_project_claim,
    )
