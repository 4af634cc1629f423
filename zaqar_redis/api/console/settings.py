# SPDX-License-Identifier: Apache-2.0
"""What operators may set of the console, and what it is given of other settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from zaqar_redis import rules
from zaqar_redis.api.api_key import ApiKeySettings
from zaqar_redis.auth.access_keys import SecretSeal
from zaqar_redis.auth.identity import NONE


class OpenIdClient(Struct, frozen=True):
    """The console at an OpenID provider."""

    issuer: str
    client_id: str


class ConsoleSettings(Struct, frozen=True):
    enabled: Annotated[
        bool,
        rules.renamed_from("channels", "console"),
        "Serve the web console at /console/: users sign in with [channels] api_key, or as [auth] "
        "strategy says. Its pages about channels need channels.",
    ] = True
    client_id: Annotated[
        str,
        rules.renamed_from("auth:jwt", "console_client_id"),
        "Client id of the console at the OpenID provider of [auth:jwt]: a public client, which may "
        "use PKCE and return to /console/. Without it the console asks for a token.",
    ] = ""
    #: signs tickets
    secret: bytes = b""
    api_key: ApiKeySettings = ApiKeySettings()
    #: globs: origins of pages that may use it without a key, where it is open to everybody
    allowed_origins: tuple[str, ...] = ()
    #: of users that belong to none
    project: str = "default"
    #: of the service, by name
    strategies: tuple[str, ...] = (NONE,)
    #: None: the page asks for a token instead
    provider: OpenIdClient | None = None
    #: makes secrets of access keys; None: the service has no such keys
    seal: SecretSeal | None = None
