# SPDX-License-Identifier: Apache-2.0
"""Channels; names are Centrifugo's."""

from __future__ import annotations

from typing import Any

import msgspec
from oslo_config import cfg, types

from zaqar_redis.auth import tokens
from zaqar_redis.conf import checks, files
from zaqar_redis.realtime import deltas, queues
from zaqar_redis.realtime.namespaces import Namespaces, Options
from zaqar_redis.realtime.world import Settings

_DEFAULTS = Settings()
_TOKENS = tokens.Settings()
_GROUP = "channels"

_HELP = {
    "presence": "Who is in a channel can be asked for.",
    "join_leave": "Joins and leaves are told.",
    "force_push_join_leave": "... to everybody in the channel, asked for or not.",
    "history_size": "Publications that are kept; 0: none.",
    "history_ttl": "Seconds for which they are kept after the last one; 0: not at all.",
    "history_meta_ttl": "Seconds for which offset and epoch are kept after the last use; longer "
    "than anybody stays away.",
    "force_positioning": "Every subscriber is told when it missed something.",
    "allow_positioning": "... those that ask for it.",
    "force_recovery": "Every subscriber gets what it missed when it comes back.",
    "allow_recovery": "... those that ask for it.",
    "force_recovery_mode": "stream: all that was missed; cache: the latest publication.",
    "auto_cache_recover": "Every subscriber gets the latest publication, also one that subscribes "
    "for the first time; with force_recovery, and force_recovery_mode cache.",
    "allow_user_limited_channels": "Channels like name#user1,user2 are for these users.",
    "allow_tags_filter": "A subscriber may say by their tags which publications it wants.",
    "allowed_delta_types": "What subscribers may ask for to get what has changed in place of whole "
    "publications: fossil, or nothing.",
    "delta_publish": "All publications are sent like that; without it, those that are published "
    "with the flag delta of the server API.",
    "publication_data_format": "What is published must be: json; json_object; binary: any bytes, "
    "also none at all; empty: any bytes. Who speaks JSON is disconnected (3506) when it would get "
    "what is no JSON.",
    "channel_regex": "What the rest of a name must match; without it, names are ASCII.",
}
for _what, _doing in (
    ("subscribe", "subscribe"), ("publish", "publish"), ("presence", "ask for presence"),
    ("history", "ask for history"),
):  # fmt: skip
    _HELP[f"allow_{_what}_for_client"] = f"Who is connected may {_doing}."
    _HELP[f"allow_{_what}_for_anonymous"] = f"Who is connected as nobody may {_doing} too."
    if _what != "subscribe":
        _HELP[f"allow_{_what}_for_subscriber"] = f"Who is subscribed may {_doing}."


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


def _of_channels(defaults: Options) -> list[cfg.Opt]:
    return [_option(name, getattr(defaults, name)) for name in defaults.__struct_fields__]


_CHANNELS: list[cfg.Opt] = [
    cfg.BoolOpt("enabled", default=True, help="Whether there are channels."),
    cfg.ListOpt(
        "namespaces",
        default=[],
        help="Names of namespaces; each has its options in a group [channels:NAME]. The options "
        "here are of the channels without one.",
    ),
    cfg.ListOpt(
        "uris",
        default=[],
        help="Several Redis: each channel lives in one of them, by its name. The order is part of "
        "that: it must be the same everywhere, and another one is added at the end. Empty: the "
        "store of [storage] uri.",
    ),
    cfg.StrOpt("project", default="default", help="Whose channels they are."),
    cfg.ListOpt(
        "allowed_origins",
        default=[],
        help="Globs; who connects from a web page of another origin is refused.",
    ),
    cfg.BoolOpt(
        "insecure", default=False, help="Everybody may do everything without a token; for trying."
    ),
    cfg.BoolOpt(
        "allow_anonymous_connect_without_token",
        default=False,
        help="Who has no token may connect, as nobody.",
    ),
    cfg.BoolOpt(
        "user_personal_channel",
        default=False,
        help="Whoever connects is subscribed to the channel #USER of their own.",
    ),
    cfg.BoolOpt(
        "user_personal_single_connection",
        default=False,
        help="Whoever connects ends the other connections of the same user.",
    ),
    cfg.IntOpt(
        "user_connection_limit",
        default=0,
        min=0,
        help="Most connections of one user to one worker; 0: any number.",
    ),
    cfg.StrOpt("personal_channel_namespace", default="", help="... in this namespace."),
    cfg.IntOpt(
        "channel_limit",
        default=_DEFAULTS.channel_limit,
        min=1,
        help="Most subscriptions of one connection.",
    ),
    cfg.IntOpt(
        "presence_ttl",
        default=_DEFAULTS.presence_ttl,
        min=2,
        help="Seconds until those are no longer present whose worker died; renewed more than "
        "twice in that time.",
    ),
    cfg.IntOpt(
        "ping_interval", default=_DEFAULTS.ping_interval, min=1, help="Seconds between pings."
    ),
    cfg.FloatOpt(
        "pong_timeout", default=_DEFAULTS.pong_timeout, min=0.1, help="Seconds to answer one."
    ),
    cfg.StrOpt("token_hmac_secret_key", secret=True, help="Key of tokens signed with HS256 etc."),
    cfg.StrOpt(
        "token_hmac_previous_secret_key", secret=True, help="The one before, while both are used."
    ),
    cfg.StrOpt("token_rsa_public_key", default="", help="Key of tokens signed with RS256; PEM."),
    cfg.StrOpt("token_ecdsa_public_key", default="", help="... with ES256; PEM."),
    cfg.StrOpt("token_ed25519_public_key", default="", help="... with EdDSA; PEM."),
    cfg.StrOpt("token_jwks_public_endpoint", default="", help="URL of a set of keys."),
    cfg.StrOpt("token_audience", default="", help="What the claim aud must be."),
    cfg.StrOpt("token_issuer", default="", help="What the claim iss must be."),
    cfg.IntOpt(
        "token_leeway",
        default=_TOKENS.leeway,
        min=0,
        help="Seconds by which nbf and iat of a token may be in the future: so much the clock of "
        "who signs it may be ahead. One that is further ahead is answered like an expired one.",
    ),
    cfg.StrOpt("token_user_id_claim", default="sub", help="The claim that names the user."),
    cfg.StrOpt(
        "token_project_claim",
        default="project",
        help="The claim that names the project whose channels the connection sees; without it, "
        "they are those of the option project.",
    ),
    cfg.StrOpt(
        "api_key",
        secret=True,
        help="What backends and operators show to use /api; without one nobody may.",
    ),
    cfg.BoolOpt("api_insecure", default=False, help="Everybody may use /api; for trying."),
    cfg.BoolOpt(
        "console",
        default=True,
        help="Serve the web console at /console/, which uses /api: who signs in shows api_key.",
    ),
    *_of_channels(Options()),
]

OPTIONS: list[tuple[str | None, list[cfg.Opt]]] = [(_GROUP, _CHANNELS)]


def settings(conf: cfg.ConfigOpts) -> Settings:
    group = conf[_GROUP]
    return Settings(
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
    """What of the options of channels does not fit together; each names group and option."""
    if not conf[_GROUP].enabled:
        return []
    found = list(checks.check_names(conf))
    by_group = {
        _GROUP: _options(conf, _GROUP, Options),
        **{_group(name): options for name, options in _named(conf).items()},
    }
    for group, options in by_group.items():
        found += checks.check_options(group, options)
    return found


def namespace_options(conf: cfg.ConfigOpts) -> dict[str, list[cfg.Opt]]:
    """By group; there is one for each namespace."""
    return {_group(name): _of_channels(kind()) for name, kind in _kinds(conf).items()}


def register_namespaces(conf: cfg.ConfigOpts) -> None:
    for group, options in namespace_options(conf).items():
        conf.register_opts(options, group=group)


def namespaces(conf: cfg.ConfigOpts) -> Namespaces:
    return Namespaces(_options(conf, _GROUP, Options), _named(conf))


def _group(namespace: str) -> str:
    return f"{files.NAMESPACE}{namespace}"


def _kinds(conf: cfg.ConfigOpts) -> dict[str, type[Options]]:
    """By namespace; that of queues is always there."""
    return dict.fromkeys(conf[_GROUP].namespaces, Options) | {queues.NAMESPACE: queues.QueueOptions}


def _named(conf: cfg.ConfigOpts) -> dict[str, Options]:
    """Options by namespace."""
    return {name: _options(conf, _group(name), kind) for name, kind in _kinds(conf).items()}


def _options(conf: cfg.ConfigOpts, group: str, kind: type[Options]) -> Options:
    given = {field: conf[group][field] for field in kind.__struct_fields__}
    return msgspec.convert(given, kind)


def verifier(conf: cfg.ConfigOpts) -> tokens.Settings:
    group = conf[_GROUP]
    secrets = (group.token_hmac_secret_key, group.token_hmac_previous_secret_key)
    return tokens.Settings(
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
